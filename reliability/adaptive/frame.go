// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// All numbers are unsigned varints. The receiver's frames carry state, not events, so
// that losing, repeating or reordering them only costs time:
//
//	byte     frameState
//	number   counts the frames of a transfer from 1
//	totals   0, or 1 and what the tails of all earlier transfers came to: units,
//	         computed ones, bursts, and how many of them were computed before a
//	         later packet of their channel had come
//	marks    how many follow, each: channel, index·4 + kind
//	groups   from, how many follow, each: gap, present, rows; and to. The groups
//	         from ≤ g < to that aren't named are complete. Named ones lack units,
//	         know of so many rows and have so many of them.
//	rest     the acknowledgement of package loss, or nothing
//
// What isn't in START the sender says in frames that arrive, each once and in order
// (scheme.ReliableReceiver). They are entries of two kinds, up to the end of the frame:
//
//	entryGroup  how many units, the first one, gaps between the others
//	entryRows   group, first row, how many, first parity unit
const (
	frameState = 1

	entryGroup = 0
	entryRows  = 1
)

const (
	// minFrame is the least room for this section and an acknowledgement.
	minFrame = loss.MinFrame + 32
	// maxReported is how many groups a frame names at most.
	maxReported = 64
	// What the totals, a mark, the ends of the groups' section and a group take at most.
	roomTotals = 4 * 6
	roomMark   = 2 + 5
	roomGroups = 3 + 1 + 3
	roomGroup  = 5 + 2 + 2
)

// stateRoom is how much of a frame the section of this package may take.
func stateRoom(maxFrame int) int { return min(maxFrame-loss.MinFrame, max(32, maxFrame/3)) }

// Kinds of marks.
const (
	markData = iota
	markProbe
	markParity
)

// A mark is the last packet to arrive on a channel.
type mark struct {
	channel, kind, index int
}

func markOf(channel int, u scheme.Unit) mark {
	switch {
	case u.IsProbe():
		return mark{channel, markProbe, u.Index()}
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
	totals   totals
	marks    []mark
	from, to int
	groups   []groupReport
	rest     []byte
}

var errFrame = errors.New("adaptive: malformed frame")

// limits is what a frame may speak of.
type limits struct{ units, groups, channels int }

// parse reads frame, in which the peer may say anything.
func (s *state) parse(frame []byte, l limits) error {
	s.marks, s.groups = s.marks[:0], s.groups[:0]
	if len(frame) == 0 || frame[0] != frameState {
		return errFrame
	}
	r := varint.NewReader(frame[1:])
	s.number = r.Uint(math.MaxUint64)
	s.totals = totals{}
	if r.Int(1) == 1 {
		s.totals = totals{r.Uint(math.MaxInt64), r.Uint(math.MaxInt64), r.Uint(math.MaxInt64), r.Uint(math.MaxInt64)}
	}
	for range r.Int(l.channels) {
		m := mark{channel: r.Int(l.channels - 1)}
		v := r.Int(int(scheme.Parity-1)<<2 | 3)
		m.index, m.kind = v>>2, v&3
		s.marks = append(s.marks, m)
	}
	s.from = r.Int(l.groups)
	g := s.from
	for range r.Int(maxReported) {
		g += r.Int(l.groups - g)
		s.groups = append(s.groups, groupReport{g, r.Int(maxGroup), r.Int(maxGroup)})
		g++
	}
	s.to = g + r.Int(l.groups-g)
	if r.Failed() || g > l.groups {
		return errFrame
	}
	s.rest = r.Rest()
	return nil
}

// A writer writes a frame of the receiver, up to the limit.
type writer struct{ varint.Writer }

func (w *writer) mark(m mark) { w.Int(m.channel); w.Int(m.index<<2 | m.kind) }

// reserve appends the byte of a count that starts at 0, and returns its place.
func (w *writer) reserve() (at int)   { w.Byte(0); return len(w.B) - 1 }
func (w *writer) increment(at int)    { w.B[at]++ }
func (w *writer) full(at, n int) bool { return int(w.B[at]) >= n }

// groupEntry is the entry of a late group.
func groupEntry(members []uint32) []byte {
	b := binary.AppendUvarint([]byte{entryGroup}, uint64(len(members)))
	last := uint32(0)
	for _, u := range members {
		b = binary.AppendUvarint(b, uint64(u-last))
		last = u
	}
	return b
}

// appendRows appends the entry of a batch of rows.
func appendRows(b []byte, r *batch) []byte {
	b = append(b, entryRows)
	for _, v := range [...]int{r.group, r.row, r.rows, r.base} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// An entry is one as the receiver reads it.
type entry struct {
	members []uint32 // of a late group
	rows    batch    // else
}

// parseEntry reads one entry; a failed r says that it makes no sense.
func parseEntry(r *varint.Reader, l *limits) (e entry) {
	if r.Int(1) == entryRows {
		e.rows = batch{stride: 1}
		e.rows.group = r.Int(l.groups - 1)
		e.rows.row, e.rows.rows = r.Int(maxGroup), r.Int(maxGroup)
		e.rows.base = r.Int(maxParity)
		if l.groups == 0 || e.rows.rows == 0 {
			r.Fail()
		}
		return e
	}
	n := r.Int(mostData)
	u := 0
	for i := range n {
		gap := r.Int(l.units - 1 - u)
		if r.Failed() || gap == 0 && i > 0 {
			r.Fail()
			return e
		}
		u += gap
		e.members = append(e.members, uint32(u))
	}
	if n == 0 {
		r.Fail()
	}
	return e
}
