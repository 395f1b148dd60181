// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"errors"
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// An ACK frame carries state, not events, so that losing, repeating or
// reordering frames only costs time. All numbers are unsigned varints:
//
//	byte     frameACK
//	number   counts the frames of a transfer from 1
//	cum      all units below cum are in place, unit cum is not
//	marks    how many marks follow, each: channel, unit·2 + 1 for a probe, count
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

var errFrame = errors.New("malformed acknowledgement")

// parse reads frame, in which the peer may say anything. Units at or above sent
// have never been sent, so acknowledging them violates the protocol.
func (a *ack) parse(frame []byte, sent, total, channels int) error {
	a.marks, a.present, a.covered = a.marks[:0], a.present[:0], a.covered[:0]
	if len(frame) == 0 || frame[0] != frameACK {
		return errFrame
	}
	r := varint.NewReader(frame[1:])
	a.number = r.Uint(math.MaxUint64)
	a.cum = r.Int(total)
	a.parseMarks(&r, total, channels)
	pos := a.cum
	for len(r.Rest()) > 0 && len(a.covered) < maxSections {
		pos = a.parseSection(&r, pos, total)
	}
	if r.Failed() || len(r.Rest()) > 0 {
		return errFrame
	}
	return a.checkSent(sent)
}

func (a *ack) parseMarks(r *varint.Reader, total, channels int) {
	for range r.Int(channels) {
		c := r.Int(channels - 1)
		v := r.Int(max(total, scheme.Probes)<<1 | 1)
		count := r.Uint(math.MaxUint64)
		u := scheme.Unit(v >> 1)
		if v&1 != 0 {
			if u >= scheme.Probes {
				r.Fail()
			}
			u |= scheme.Probe
		}
		if r.Failed() {
			return
		}
		a.marks = append(a.marks, channelMark{c, u, count})
	}
}

func (a *ack) parseSection(r *varint.Reader, pos, total int) int {
	pos += r.Int(total - pos)
	from := pos
	for {
		present := r.Int(total - pos)
		if present > 0 {
			a.present = append(a.present, span{pos, pos + present})
		}
		pos += present
		missing := r.Int(total - pos)
		pos += missing
		if missing == 0 || r.Failed() {
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
		return fmt.Errorf("the peer acknowledges unit %d, but only %d have been sent", top-1, sent)
	}
	return nil
}

// An ackWriter writes an ACK frame, which begins at base, up to the limit.
type ackWriter struct {
	varint.Writer
	base int
}

// mark adds the mark of a channel.
func (w *ackWriter) mark(channel int, m scheme.Mark) {
	u := probeOf(m.Unit)
	v := u.Index() << 1
	if u.IsProbe() {
		v |= 1
	}
	w.Int(channel)
	w.Int(v)
	w.Uint(m.Count)
}

// section adds the window of units from ≤ u < to, as far as the limit allows, and
// returns where it ended. prev is where what came before it ended. Units may arrive
// while it reads; one that is reported missing was missing after the marks had been
// loaded, and no more is promised.
func (w *ackWriter) section(v scheme.View, prev, from, to int) (end int) {
	w.Int(from - prev)
	for w.Fits(maxPair + 2) {
		hole := min(v.NextMissing(from), to)
		w.Int(hole - from)
		if hole == to {
			w.Int(0)
			return to
		}
		next := v.NextPresent(hole+1, to)
		w.Int(next - hole)
		from = next
	}
	w.Int(0) // ends a section that stopped for lack of room
	w.Int(0)
	return from
}
