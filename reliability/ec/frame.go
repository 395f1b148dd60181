// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A frame of the receiver carries state, not events, so that losing, repeating or
// reordering frames only costs time. All numbers are unsigned varints:
//
//	byte    frameState
//	number  counts the frames of a transfer from 1
//	cum     groups below cum are recoverable: in place or being decoded
//	groups  how many groups further the description begins, then pairs: for a
//	        group that isn't recoverable one more than how many of its units are
//	        in place, and how many recoverable groups follow it; a 0 ends them
//	wants   pairs up to the end of the frame: how many units are passed over,
//	        counted from the first of group cum, and how many are asked for
//
// What the pairs don't reach is not described. Frames rotate through what one has
// no room for.
const frameState = 1

const (
	// minFrame holds the fixed part, a pair of groups and a pair of units.
	minFrame = 64
	// maxNumber is what a varint of this package takes at most, but for the
	// frame number.
	maxNumber = 5
	// maxPair is what a pair takes at most.
	maxPair = 2 * maxNumber
)

// A groupState is what a frame says of a group that isn't recoverable, and that
// the groups behind it, up to next, are.
type groupState struct{ group, have, next int }

// A span is the units from ≤ u < to.
type span struct{ from, to int }

// A state is a parsed frame. Its slices are used again for the next.
type state struct {
	number uint64
	cum    int
	// from is where the description begins: groups between cum and from are
	// not described.
	from   int
	groups []groupState
	wants  []span
}

var errFrame = errors.New("ec: malformed frame")

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

func (r *frameReader) upTo(limit int) int { return int(r.number(uint64(max(0, limit)))) }

// parse reads frame, in which the peer may say anything. sent is how many groups
// have been sent with all their data units; whoever can recover others lies.
func (s *state) parse(frame []byte, l *layout, sent int) error {
	s.groups, s.wants = s.groups[:0], s.wants[:0]
	if len(frame) == 0 || frame[0] != frameState {
		return errFrame
	}
	r := frameReader{rest: frame[1:]}
	s.number = r.number(1<<64 - 1)
	s.cum = r.upTo(l.groups)
	s.parseGroups(&r, l)
	s.parseWants(&r, l)
	if r.bad {
		return errFrame
	}
	return s.checkSent(sent)
}

func (s *state) parseGroups(r *frameReader, l *layout) {
	s.from = s.cum + r.upTo(l.groups-s.cum)
	for g := s.from; !r.bad; {
		have := r.upTo(l.k + l.m + 1)
		if have == 0 {
			return
		}
		if g == l.groups {
			r.bad = true
			return
		}
		next := g + 1 + r.upTo(l.groups-g-1)
		s.groups = append(s.groups, groupState{g, have - 1, next})
		g = next
	}
}

func (s *state) parseWants(r *frameReader, l *layout) {
	for u := min(l.first(s.cum), l.units); len(r.rest) > 0; {
		u += r.upTo(l.units - u)
		n := r.upTo(l.units - u)
		if n == 0 {
			r.bad = true
			return
		}
		s.wants = append(s.wants, span{u, u + n})
		u += n
	}
}

// checkSent refuses what no loss or reordering can explain.
func (s *state) checkSent(sent int) error {
	top := s.cum
	for _, g := range s.groups {
		if g.next > g.group+1 {
			top = max(top, g.next)
		}
	}
	if top > sent {
		return fmt.Errorf("ec: the peer has recovered submessage %d, but only %d have been sent", top-1, sent)
	}
	return nil
}

// A frameWriter writes the two lists of a frame, each up to a limit.
type frameWriter struct {
	b     []byte
	limit int
	// at is where the list has got to; from and to are the span of units that
	// is still open.
	at       int
	from, to int
}

func (w *frameWriter) number(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

// begin writes the fixed part.
func (w *frameWriter) begin(number uint64, cum, from int) {
	w.b = append(w.b, frameState)
	w.number(number)
	w.number(uint64(cum))
	w.number(uint64(from - cum))
}

// fits reports whether one more pair fits, with the end of its list.
func (w *frameWriter) fits() bool { return len(w.b)+maxPair+1 <= w.limit }

// group writes that a group isn't recoverable and that those behind it, up to
// next, are.
func (w *frameWriter) group(have, g, next int) {
	w.number(uint64(have) + 1)
	w.number(uint64(next - g - 1))
}

// beginWants ends the list of groups; wants are counted from unit at.
func (w *frameWriter) beginWants(at, limit int) {
	w.b = append(w.b, 0)
	w.at, w.from, w.to, w.limit = at, at, at, limit
}

// want asks for the units from ≤ u < to, which come after all before; false: there
// is no room.
func (w *frameWriter) want(from, to int) bool {
	if from == w.to && w.to > w.from {
		w.to = to
		return true
	}
	w.flush()
	if !w.fits() {
		return false
	}
	w.from, w.to = from, to
	return true
}

// flush writes the open span.
func (w *frameWriter) flush() {
	if w.to > w.from {
		w.number(uint64(w.from - w.at))
		w.number(uint64(w.to - w.from))
		w.at, w.from = w.to, w.to
	}
}
