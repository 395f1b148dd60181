// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// An ACK frame carries state, not events, so that losing, repeating or
// reordering frames only costs time. All numbers are unsigned varints:
//
//	byte     frameACK
//	number   counts the frames of a transfer from 1
//	cum      all units below cum are in place, unit cum is not
//	marks    how many marks follow, each: channel, unit·2 + marker bit, count
//	section  the window that starts at cum, then at most one more
//
// A section is a gap, counted from the end of what came before it, and then
// pairs (present, missing): the lengths of a run of units in place, perhaps 0,
// and of the run of missing units behind it. A missing of 0 ends the section.
// What no section covers is unknown, not missing.
//
// The marks were loaded before the bitmap was read. The second section rotates
// through whatever the first has no room for.
const frameACK = 1

// Room that the parts of a frame may take.
const (
	// minFrame holds the fixed part, one mark and two short sections.
	minFrame = 96
	// maxMarkCount is what the count of marks takes at most, maxMark a mark, until 2^35
	// packets have come on its channel.
	maxMarkCount = 2
	maxMark      = 2 + 5 + 5
	// maxPair is what a pair of run lengths takes at most, maxGap a gap.
	maxPair = 10
	maxGap  = 5
)

// A channelMark is the mark of one channel in an ACK.
type channelMark struct {
	channel int
	unit    scheme.Unit
	count   uint64
}

// A span is the units from ≤ u < to.
type span struct{ from, to int }

func (s span) has(u int) bool { return s.from <= u && u < s.to }

// An ack is a parsed ACK frame. Its slices are used again for the next.
type ack struct {
	number  uint64
	cum     int
	marks   []channelMark
	present []span
	covered []span
}

// covers reports whether the frame says of u whether it is in place.
func (a *ack) covers(u int) bool {
	for _, c := range a.covered {
		if c.has(u) {
			return true
		}
	}
	return false
}

// maxSections is how many windows a frame may describe.
const maxSections = 2

var errFrame = errors.New("sr: malformed acknowledgement")

// A frameReader reads varints from a frame and remembers that it failed.
type frameReader struct {
	rest []byte
	bad  bool
}

// number reads a varint that is at most limit.
func (r *frameReader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// parse reads frame, in which the peer may say anything. Units at or above sent
// have never been sent, so whoever has them lies.
func (a *ack) parse(frame []byte, sent, total, channels int) error {
	a.marks, a.present, a.covered = a.marks[:0], a.present[:0], a.covered[:0]
	if len(frame) == 0 || frame[0] != frameACK {
		return errFrame
	}
	r := frameReader{rest: frame[1:]}
	a.number = r.number(1<<64 - 1)
	a.cum = int(r.number(uint64(total)))
	a.parseMarks(&r, total, channels)
	pos := a.cum
	for len(r.rest) > 0 && len(a.covered) < maxSections {
		pos = a.parseSection(&r, pos, total)
	}
	if r.bad || len(r.rest) > 0 {
		return errFrame
	}
	return a.checkSent(sent)
}

func (a *ack) parseMarks(r *frameReader, total, channels int) {
	for range r.number(uint64(channels)) {
		c := r.number(uint64(channels - 1))
		v := r.number(uint64(max(total, scheme.Markers))<<1 | 1)
		count := r.number(math.MaxUint64)
		u := scheme.Unit(v >> 1)
		if v&1 != 0 {
			r.bad = r.bad || u >= scheme.Markers
			u |= scheme.Marker
		}
		if r.bad {
			return
		}
		a.marks = append(a.marks, channelMark{int(c), u, count})
	}
}

func (a *ack) parseSection(r *frameReader, pos, total int) int {
	pos += int(r.number(uint64(total - pos)))
	from := pos
	for {
		present := int(r.number(uint64(total - pos)))
		if present > 0 {
			a.present = append(a.present, span{pos, pos + present})
		}
		pos += present
		missing := int(r.number(uint64(total - pos)))
		pos += missing
		if missing == 0 || r.bad {
			a.covered = append(a.covered, span{from, pos})
			return pos
		}
	}
}

// checkSent refuses what no loss or reordering can explain.
func (a *ack) checkSent(sent int) error {
	top := a.cum
	if n := len(a.present); n > 0 {
		top = max(top, a.present[n-1].to)
	}
	for _, m := range a.marks {
		if m.unit.IsData() {
			top = max(top, m.unit.Index()+1)
		}
	}
	if top > sent {
		return fmt.Errorf("sr: the peer acknowledges unit %d, but only %d have been sent", top-1, sent)
	}
	return nil
}

// appendMark adds the mark of a channel.
func appendMark(b []byte, channel int, m scheme.Mark) []byte {
	v := uint64(m.Unit.Index()) << 1
	if m.Unit.IsMarker() {
		v |= 1
	}
	b = binary.AppendUvarint(b, uint64(channel))
	b = binary.AppendUvarint(b, v)
	return binary.AppendUvarint(b, m.Count)
}

// appendSection adds the window of units from ≤ u < to, as far as the frame's
// first limit bytes allow, and returns where it ended. prev is where what came
// before it ended. Units may arrive while it reads; one that is reported missing
// was missing after the marks had been loaded, and no more is promised.
func appendSection(b []byte, limit int, v scheme.View, prev, from, to int) ([]byte, int) {
	b = binary.AppendUvarint(b, uint64(from-prev))
	for len(b)+maxPair+len(endPair) <= limit {
		hole := min(v.NextMissing(from), to)
		if hole == to {
			b = binary.AppendUvarint(b, uint64(hole-from))
			return append(b, 0), to
		}
		end := v.NextPresent(hole+1, to)
		b = binary.AppendUvarint(b, uint64(hole-from))
		b = binary.AppendUvarint(b, uint64(end-hole))
		from = end
	}
	return append(b, endPair...), from
}

// endPair ends a section that stopped for lack of room.
const endPair = "\x00\x00"
