// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// urgentFraction of the interval must lie between frames in any case.
const urgentFraction = 8

// frameDue is when the next frame may go: soon if a group falls back or everything
// has become recoverable, when the interval has passed if something has arrived,
// else ever more rarely, because any frame may be lost.
func (r *receiver) frameDue() units.Instant {
	urgent := r.lastAt.Add(loss.Interval(r.env) / urgentFraction)
	if r.allRecoverable() && !r.allSaid {
		return urgent
	}
	again := r.dueAt
	if r.unanswered > 0 {
		// When nothing arrives any more, many groups are asked for together.
		again = max(again, r.retryAt(r.askedAt.Add(r.silence(r.unanswered)), r.askedAt))
	}
	at := max(min(r.askAt, again), urgent)
	switch {
	case r.fresh:
		at = min(at, r.lastAt.Add(loss.Interval(r.env)))
	case r.number > 0:
		at = min(at, r.retryAt(r.lastAt.Add(r.silence(r.repeats)), r.lastAt))
	}
	return at
}

// plan finds out how many groups are lacking, when the next of them falls back, and
// when the first is to be asked for, for the first time or again.
func (r *receiver) plan() {
	r.lacking, r.askAt, r.dueAt = 0, units.Never, units.Never
	ordered := false
	for _, n := range r.open {
		g := int(n)
		group := r.window.at(g)
		if group.state != lacking {
			continue
		}
		r.lacking++
		if ordered {
			continue
		}
		due := r.due(g)
		r.dueAt = min(r.dueAt, due)
		if group.asks == 0 {
			r.askAt = min(r.askAt, due)
		}
		// Those behind a group that is still arriving are expected later.
		ordered = !group.passed && group.asks == 0
	}
}

// allRecoverable reports whether nothing more need arrive.
func (r *receiver) allRecoverable() bool { return r.window.next == r.layout.groups && r.lacking == 0 }

// wake is when something may have to be done though nothing arrives.
func (r *receiver) wake(now units.Instant) units.Instant {
	next := r.frameDue()
	if r.window.next < r.layout.groups {
		next = min(next, r.expected(r.window.next))
	}
	return max(next, now+1)
}

// report writes a frame, or nothing if out has no room for one.
func (r *receiver) report(now units.Instant, v scheme.View, out *scheme.Output) bool {
	room := min(r.env.MaxFrame, cap(out.Frame))
	if room < minFrame || len(out.Frame) > 0 {
		return false
	}
	r.number++
	w := frameWriter{Writer: varint.Writer{B: out.Frame[:0], Limit: room}}
	asking := now >= r.dueAt
	if asking {
		w.Limit = room - (room-minFrame/2)/2
	}
	cum := r.describe(&w)
	w.beginWants(r.layout.first(cum), room)
	if asking {
		r.unanswered, r.askedAt = min(r.unanswered+1, maxSilence), now
		r.wants(now, v, &w)
		w.flush()
		r.plan()
	}
	out.Frame = w.B
	r.fresh, r.allSaid = false, r.allRecoverable()
	r.repeats = min(r.repeats+1, maxSilence)
	r.stats.Frames++
	r.stats.FrameBytes += uint64(len(w.B))
	return true
}

// describe writes the states of the groups, from where the last frame had no more
// room, and returns the first group that is lacking.
func (r *receiver) describe(w *frameWriter) (cum int) {
	cum = r.window.next
	from := -1
	for i, n := range r.open {
		if r.window.at(int(n)).state != lacking {
			continue
		}
		if from < 0 {
			cum, from = int(n), i
		}
		if int(n) >= r.rotor {
			from = i
			break
		}
	}
	if from < 0 || int(r.open[from]) < r.rotor {
		r.rotor = 0
	}
	start := cum
	if from >= 0 && r.rotor > cum {
		start = int(r.open[from])
	}
	w.begin(r.number, cum, start)
	r.rotor = r.describeFrom(w, start)
	return cum
}

// describeFrom writes the states from group g on, which is lacking unless there is
// none, and returns where it stopped for lack of room, or 0.
func (r *receiver) describeFrom(w *frameWriter, g int) (rotor int) {
	have := -1
	for _, n := range r.open {
		next := int(n)
		if next < g || r.window.at(next).state != lacking {
			continue
		}
		if have >= 0 {
			w.group(have, g, next)
		}
		if !w.pairFits() {
			return next
		}
		g, have = next, int(r.window.at(next).have)
	}
	if have >= 0 {
		w.group(have, g, r.window.next)
	}
	return 0
}
