// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// steadyRepeats is how many frames repeat the same state at the usual interval: for as
	// long as the answer to the first takes, and a burst of losses may, which goes on
	// from frame to frame where no other packets go in that direction.
	steadyRepeats = 256
	// rareRepeats is how many times the interval doubles at most while more data is all that is awaited.
	rareRepeats = 4
	// maxAckRepeat is how rarely a silent receiver repeats its state.
	maxAckRepeat = units.Second
	// lookAhead is how many units beyond the newest known one a frame covers.
	// Whatever was lost behind the last arrival is thereby reported missing.
	lookAhead = 1 << 14
)

// A Reporter is the receiving half: it reports the bitmap.
type Reporter struct {
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
	// passed: the newest packet of a channel is a probe or parity, and may have passed data that are lost.
	passed bool

	// marks are the marks of this poll.
	marks []scheme.Mark
	stats scheme.Stats
}

// Begin makes r the reporter of a transfer, for which CheckTransfer must have passed. r may be new, or that of a transfer that has ended,
// whose memory it takes.
func (r *Reporter) Begin(t scheme.Transfer, env *scheme.Env) {
	marks := r.marks
	if len(marks) != env.Channels {
		marks = make([]scheme.Mark, env.Channels)
	}
	clear(marks)
	*r = Reporter{env: env, total: t.Units, marks: marks}
}

// Stats are the reporter's counters.
func (r *Reporter) Stats() scheme.Stats { return r.stats }

// Due looks at what has arrived. It reports whether a frame is due: when the interval
// has passed since the last one and something arrived, and in silence again and again,
// ever more rarely, because any frame may be lost. next is when to call again; done says
// that every unit is in place.
func (r *Reporter) Due(now units.Instant, v scheme.View) (due bool, next units.Instant, done bool) {
	arrived := r.loadMarks(v)
	r.cum = v.NextMissing(r.cum)
	if r.cum >= r.total {
		return false, units.Never, true
	}
	if arrived {
		r.repeats = 0
		if !r.started {
			r.started = true
			r.lastAck = now.Add(-Interval(r.env))
		}
	}
	if !r.started {
		return false, units.Never, false
	}
	return now >= r.nextDue(), r.nextDue(), false
}

// nextDue is when the next frame may go. While nothing is known to be missing, those that repeat another become rare at once: on a slow
// link there is silence between two packets, and frames at the interval would take more of the way back than data take of the way there.
// What is missing counts as lost once a frame says so late enough, for which the next must come soon.
func (r *Reporter) nextDue() units.Instant {
	wait := Interval(r.env)
	if r.cum >= r.top && !r.passed && r.repeats > 0 {
		wait = max(wait, r.env.RepeatInterval) << min(r.repeats-1, rareRepeats)
	}
	if r.repeats > steadyRepeats {
		wait = min(wait<<min(r.repeats-steadyRepeats, 16), max(wait, maxAckRepeat))
	}
	return r.lastAck.Add(wait)
}

// loadMarks loads all marks, which must happen before the bitmap is read, and
// reports whether any packet has arrived since the last time.
func (r *Reporter) loadMarks(v scheme.View) bool {
	var arrivals uint64
	r.passed = false
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
		} else {
			r.passed = true
		}
	}
	arrived := arrivals != r.arrivals
	r.arrivals = arrivals
	return arrived
}

// AppendAck appends the frame that is due to b, in at most room bytes, and returns when
// Due must next be called. room must be at least MinFrame.
func (r *Reporter) AppendAck(now units.Instant, b []byte, room int, v scheme.View) (frame []byte, next units.Instant) {
	r.number++
	w := ackWriter{Writer: varint.Writer{B: b}, base: len(b)}
	w.Byte(frameACK)
	w.Uint(r.number)
	w.Int(r.cum)
	w.Limit = w.base + room/3
	r.writeMarks(&w)
	w.Limit = w.base + room
	r.writeSections(&w, v)
	r.stats.Frames++
	r.stats.FrameBytes += uint64(len(w.B) - w.base)
	r.lastAck = now
	r.repeats++
	return w.B, r.nextDue()
}

// writeMarks adds as many marks as fit, others each time.
func (r *Reporter) writeMarks(w *ackWriter) {
	room := max(1, (w.Limit-len(w.B)-maxMarkCount)/maxMark)
	n := 0
	for _, m := range r.marks {
		if m.Valid {
			n++
		}
	}
	n = min(n, room)
	w.Int(n)
	for n > 0 {
		c := r.markRotor % len(r.marks)
		r.markRotor = c + 1
		if m := r.marks[c]; m.Valid {
			w.mark(c, m)
			n--
		}
	}
}

// writeSections adds the window at cum and, if that has no room for all, the
// rotating one.
func (r *Reporter) writeSections(w *ackWriter, v scheme.View) {
	to := r.findTop(v)
	room := w.Limit
	w.Limit = len(w.B) + (room-len(w.B)-maxGap)/2
	end := w.section(v, r.cum, r.cum, to)
	if end == to {
		return
	}
	from := r.rotor
	if from < end || from >= to {
		from = end
	}
	w.Limit = room
	r.rotor = w.section(v, end, from, to)
}

// findTop looks for units in place above top, which marks alone need not show,
// and returns where coverage ends.
func (r *Reporter) findTop(v scheme.View) int {
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
