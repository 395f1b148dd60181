// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"errors"
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/internal/varint"
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
	// maxNumber is how many bytes a varint of this package takes at most, except for the
	// frame number.
	maxNumber = 5
	// maxPair is how many bytes a pair takes at most.
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

// parse reads frame, in which the peer may say anything. sent is how many groups
// have been sent with all their data units; claiming others violates the protocol.
func (s *state) parse(frame []byte, l *layout, sent int) error {
	s.groups, s.wants = s.groups[:0], s.wants[:0]
	if len(frame) == 0 || frame[0] != frameState {
		return errFrame
	}
	r := varint.NewReader(frame[1:])
	s.number = r.Uint(math.MaxUint64)
	s.cum = r.Int(l.groups)
	s.parseGroups(&r, l)
	s.parseWants(&r, l)
	if r.Failed() {
		return errFrame
	}
	return s.checkSent(sent)
}

func (s *state) parseGroups(r *varint.Reader, l *layout) {
	s.from = s.cum + r.Int(l.groups-s.cum)
	for g := s.from; !r.Failed(); {
		have := r.Int(l.k + l.m + 1)
		if have == 0 {
			return
		}
		if g == l.groups {
			r.Fail()
			return
		}
		next := g + 1 + r.Int(l.groups-g-1)
		s.groups = append(s.groups, groupState{g, have - 1, next})
		g = next
	}
}

func (s *state) parseWants(r *varint.Reader, l *layout) {
	for u := min(l.first(s.cum), l.units); len(r.Rest()) > 0; {
		u += r.Int(l.units - u)
		n := r.Int(l.units - u)
		if n == 0 {
			r.Fail()
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
	varint.Writer
	// at is where the list has got to; from and to are the span of units that
	// is still open.
	at       int
	from, to int
}

// begin writes the fixed part.
func (w *frameWriter) begin(number uint64, cum, from int) {
	w.Byte(frameState)
	w.Uint(number)
	w.Int(cum)
	w.Int(from - cum)
}

// pairFits reports whether one more pair fits, with the end of its list.
func (w *frameWriter) pairFits() bool { return w.Fits(maxPair + 1) }

// group writes that a group isn't recoverable and that those behind it, up to
// next, are.
func (w *frameWriter) group(have, g, next int) {
	w.Int(have + 1)
	w.Int(next - g - 1)
}

// beginWants closes the list of groups; wants are counted from unit at.
func (w *frameWriter) beginWants(at, limit int) {
	w.Int(0)
	w.at, w.from, w.to, w.Limit = at, at, at, limit
}

// want asks for the units from ≤ u < to, which come after all that were asked for before. It returns false if there
// is no room.
func (w *frameWriter) want(from, to int) bool {
	if from == w.to && w.to > w.from {
		w.to = to
		return true
	}
	w.flush()
	if !w.pairFits() {
		return false
	}
	w.from, w.to = from, to
	return true
}

// flush writes the open span.
func (w *frameWriter) flush() {
	if w.to > w.from {
		w.Int(w.from - w.at)
		w.Int(w.to - w.from)
		w.at, w.from = w.to, w.to
	}
}
