// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// Frames carry state, not events, so that losing, repeating or reordering them only
// costs time. All numbers are unsigned varints. The receiver sends:
//
//	byte     frameState
//	number   counts the frames of a transfer from 1
//	known    how many announcements of the sender are known
//	totals   0, or 1 and what the tails of all earlier transfers came to: units,
//	         lost ones, bursts
//	marks    how many follow, each: channel, index·4 + kind
//	groups   from, how many follow, each: gap, present, rows; and to. The groups
//	         from ≤ g < to that aren't named are complete. Named ones lack units,
//	         know of so many rows and have so many of them.
//	rest     the frame of path-confirmed repeat, or nothing
//
// The sender announces what is not in START, with entries numbered from 0 and sent
// until known:
//
//	byte     frameAnnounce
//	first    the number of the first entry
//	entries  of two kinds up to the end of the frame:
//	         entryGroup: how many units, the first one, gaps between the others
//	         entryRows: group, first row, how many, first parity unit
const (
	frameState    = 1
	frameAnnounce = 2

	entryGroup = 0
	entryRows  = 1
)

const (
	// repeatFrame is what sr needs at least, and minFrame what both do.
	repeatFrame = 96
	minFrame    = repeatFrame + 32
	// maxListed is how many groups a frame names.
	maxListed = 64
	// What a mark, the ends of the groups' section and a group take at most.
	roomTotals = 3 * 6
	roomMark   = 2 + 5
	roomGroups = 3 + 1 + 3
	roomGroup  = 5 + 2 + 2
)

// stateRoom is how much of a frame the section of this package may take.
func stateRoom(maxFrame int) int { return min(maxFrame-repeatFrame, max(32, maxFrame/3)) }

// Kinds of marks.
const (
	markData = iota
	markMarker
	markParity
)

// A mark is the last packet to arrive on a channel.
type mark struct {
	channel, kind, index int
}

func markOf(channel int, u scheme.Unit) mark {
	switch {
	case u.IsMarker():
		return mark{channel, markMarker, u.Index()}
	case u.IsParity():
		return mark{channel, markParity, u.Index()}
	}
	return mark{channel, markData, u.Index()}
}

// A groupReport is what a frame says of a group that lacks units.
type groupReport struct{ group, present, rows int }

// A state is a parsed frame of the receiver. Its slices are used again.
type state struct {
	number   uint64
	known    int
	totals   totals
	marks    []mark
	from, to int
	groups   []groupReport
	rest     []byte
}

var errFrame = errors.New("adaptive: malformed frame")

// A reader reads varints and remembers that it failed.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) upTo(limit int) int { return int(r.number(uint64(max(0, limit)))) }

// limits is what a frame may speak of.
type limits struct{ units, groups, channels, entries int }

// parse reads frame, in which the peer may say anything.
func (s *state) parse(frame []byte, l limits) error {
	s.marks, s.groups = s.marks[:0], s.groups[:0]
	if len(frame) == 0 || frame[0] != frameState {
		return errFrame
	}
	r := reader{rest: frame[1:]}
	s.number = r.number(1<<64 - 1)
	s.known = r.upTo(l.entries)
	s.totals = totals{}
	if r.upTo(1) == 1 {
		s.totals = totals{r.number(1<<63 - 1), r.number(1<<63 - 1), r.number(1<<63 - 1)}
	}
	for range r.upTo(l.channels) {
		m := mark{channel: r.upTo(l.channels - 1)}
		v := r.upTo(int(scheme.Parity-1)<<2 | 3)
		m.index, m.kind = v>>2, v&3
		s.marks = append(s.marks, m)
	}
	s.from = r.upTo(l.groups)
	g := s.from
	for range r.upTo(maxListed) {
		g += r.upTo(l.groups - g)
		s.groups = append(s.groups, groupReport{g, r.upTo(maxGroup), r.upTo(maxGroup)})
		g++
	}
	s.to = g + r.upTo(l.groups-g)
	if r.bad || g > l.groups {
		return errFrame
	}
	s.rest = r.rest
	return nil
}

// A writer writes a frame of the receiver, up to limit.
type writer struct {
	b     []byte
	limit int
}

func (w *writer) number(v uint64)     { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) fits(n int) bool     { return len(w.b)+n <= w.limit }
func (w *writer) count(at int)        { w.b[at]++ }
func (w *writer) placeholder() int    { w.b = append(w.b, 0); return len(w.b) - 1 }
func (w *writer) mark(m mark)         { w.number(uint64(m.channel)); w.number(uint64(m.index<<2 | m.kind)) }
func (w *writer) full(at, n int) bool { return int(w.b[at]) >= n }
