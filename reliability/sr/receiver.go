// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// minAckInterval keeps a connection without an interval from answering
	// each poll with a frame.
	minAckInterval = 10 * units.Microsecond
	// steadyRepeats is how many frames repeat the same state at the usual interval: for as
	// long as the answer to the first takes, and a burst of losses may, which goes on
	// from frame to frame where nothing else comes their way.
	steadyRepeats = 256
	// maxAckRepeat is how rarely a silent receiver repeats its state.
	maxAckRepeat = units.Second
	// lookAhead is how many units beyond the newest known one a frame covers.
	// Whatever was lost behind the last arrival is thereby reported missing.
	lookAhead = 1 << 14
)

// A receiver reports the bitmap.
type receiver struct {
	env   *scheme.Env
	total int

	// cum is the first missing unit, top one more than the newest present
	// unit that was noticed.
	cum, top int
	// rotor is the unit where the rotating section of the next frame begins,
	// markRotor the channel where the marks begin.
	rotor, markRotor int

	number   uint64
	arrivals uint64
	lastAck  units.Instant
	// repeats counts the frames since the last arrival; none are sent before
	// the first.
	repeats uint
	started bool

	// marks are the marks of this poll.
	marks []scheme.Mark
	stats scheme.Stats
}

func newReceiver(t scheme.Transfer, env *scheme.Env) *receiver {
	return &receiver{env: env, total: t.Units, marks: make([]scheme.Mark, env.Channels)}
}

var errNoFrames = errors.New("sr: the sender's half sends no frames")

func (r *receiver) OnControl(units.Instant, []byte) error { return errNoFrames }

func (r *receiver) OnJob(units.Instant, uint32) {}

func (r *receiver) Stats() scheme.Stats { return r.stats }

// Poll makes a frame when the interval has passed since the last one and
// something arrived, and repeats it in silence, ever more slowly: any frame may
// be lost.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	arrived := r.loadMarks(v)
	r.cum = v.NextMissing(r.cum)
	if r.cum >= r.total {
		return units.Never, true, nil
	}
	if arrived {
		r.repeats = 0
		if !r.started {
			r.started = true
			r.lastAck = now.Add(-r.interval())
		}
	}
	if !r.started {
		return units.Never, false, nil
	}
	if now >= r.due() && len(out.Frame) == 0 && r.report(v, out) {
		r.lastAck = now
		r.repeats++
	}
	return r.due(), false, nil
}

func (r *receiver) interval() units.Duration { return max(r.env.AckInterval, minAckInterval) }

// due is when the next frame may go.
func (r *receiver) due() units.Instant {
	wait := r.interval()
	if r.repeats > steadyRepeats {
		wait = min(wait<<min(r.repeats-steadyRepeats, 16), max(wait, maxAckRepeat))
	}
	return r.lastAck.Add(wait)
}

// loadMarks loads all marks, which must happen before the bitmap is read, and
// reports whether any packet has arrived since the last time.
func (r *receiver) loadMarks(v scheme.View) bool {
	var arrivals uint64
	for c := range r.marks {
		m := v.Mark(c)
		r.marks[c] = m
		if !m.Valid {
			continue
		}
		// The sum needs only change when something arrives.
		arrivals += m.Count + 1
		if m.Unit.IsData() {
			r.top = max(r.top, min(m.Unit.Index()+1, r.total))
		}
	}
	arrived := arrivals != r.arrivals
	r.arrivals = arrivals
	return arrived
}

// report writes a frame, or nothing if out has no room for one.
func (r *receiver) report(v scheme.View, out *scheme.Output) bool {
	room := min(r.env.MaxFrame, cap(out.Frame))
	if room < minFrame {
		return false
	}
	r.number++
	b := append(out.Frame[:0], frameACK)
	b = binary.AppendUvarint(b, r.number)
	b = binary.AppendUvarint(b, uint64(r.cum))
	b = r.appendMarks(b, room/3)
	b = r.appendSections(b, room, v)
	out.Frame = b
	r.stats.Frames++
	r.stats.FrameBytes += uint64(len(b))
	return true
}

// appendMarks adds as many marks as limit bytes hold, others each time.
func (r *receiver) appendMarks(b []byte, limit int) []byte {
	room := max(1, (limit-len(b)-maxMarkCount)/maxMark)
	n := 0
	for _, m := range r.marks {
		if m.Valid && !m.Unit.IsParity() {
			n++
		}
	}
	n = min(n, room)
	b = binary.AppendUvarint(b, uint64(n))
	for n > 0 {
		c := r.markRotor % len(r.marks)
		r.markRotor = c + 1
		if m := r.marks[c]; m.Valid && !m.Unit.IsParity() {
			b = appendMark(b, c, m)
			n--
		}
	}
	return b
}

// appendSections adds the window at cum and, if that has no room for all, the
// rotating one.
func (r *receiver) appendSections(b []byte, room int, v scheme.View) []byte {
	to := r.findTop(v)
	half := len(b) + (room-len(b)-maxGap)/2
	b, end := appendSection(b, half, v, r.cum, r.cum, to)
	if end == to {
		return b
	}
	from := r.rotor
	if from < end || from >= to {
		from = end
	}
	b, r.rotor = appendSection(b, room, v, end, from, to)
	return b
}

// findTop looks for units in place above top, which marks alone need not show,
// and returns where coverage ends.
func (r *receiver) findTop(v scheme.View) int {
	r.top = max(r.top, r.cum)
	to := min(r.top+lookAhead, r.total)
	for {
		next := v.NextPresent(r.top, to)
		if next >= to {
			return to
		}
		r.top = min(v.NextMissing(next), to)
	}
}
