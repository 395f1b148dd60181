// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A pace says when a unit should arrive, from the sender's paced rate and from
// what has arrived. The fallback timeout of the paper (4.1.2) starts with the
// first unit and assumes that the rate is kept; this one starts again with every
// newer unit, so that a sender which had to pause is not taken for a loss.
type pace struct {
	// newest is the latest position from which anything has arrived, and at is when it arrived. Before that,
	// newest is −1 and at is when START arrived.
	newest position
	at     units.Instant
	// paced is how long a unit takes at the sender's rate, 0 if that isn't known, and
	// unit is how long it takes as measured.
	paced, unit units.Duration
	// measuredFrom and measuredAt are where the current measurement began.
	measuredFrom position
	measuredAt   units.Instant
}

const (
	// measureUnits is how many units a measurement of the pace spans.
	measureUnits = 64
	// maxSlowdown bounds how much slower than its rate a sender is believed to
	// be. It may have paused, which says nothing about its pace.
	maxSlowdown = 8
)

func (p *pace) begin(at units.Instant) { p.at, p.measuredAt, p.measuredFrom = at, at, p.newest }

// reached records that something sent at position q has arrived.
func (p *pace) reached(now units.Instant, q position) {
	if q <= p.newest {
		return
	}
	p.newest, p.at = q, now
	if n := q - p.measuredFrom; n >= measureUnits {
		each := now.Sub(p.measuredAt) / units.Duration(n)
		p.unit = max(each, p.paced)
		if p.paced > 0 {
			p.unit = min(p.unit, maxSlowdown*p.paced)
		}
		p.measuredFrom, p.measuredAt = q, now
	}
}

// expected is when group g, of which nothing has arrived that comes after it,
// falls back: β·RTT after its last unit should have arrived.
func (r *receiver) expected(g int) units.Instant {
	last := r.layout.last(g)
	// A sender stops when its window is full, so nothing is expected of units that
	// lie further ahead.
	if last > r.pace.newest+r.reach() {
		return units.Never
	}
	wait := r.config.fallback(r.env) + units.Duration(last-r.pace.newest)*r.pace.unit
	return r.pace.at.Add(wait)
}

// reach returns how many units beyond the newest one that has arrived may be in flight.
func (r *receiver) reach() position {
	few := position(2*(r.layout.k+r.layout.m) + 1024)
	if r.pace.unit <= 0 {
		return few
	}
	return few + position(min(2*loss.RTT(r.env)/r.pace.unit, 1<<24))
}

// due returns when to ask for group g, which lacks units.
func (r *receiver) due(g int) units.Instant {
	switch group := r.window.at(g); {
	case group.asks > 0:
		return r.retryAt(group.due, r.askedAt)
	case group.passed:
		return group.due
	}
	return r.expected(g)
}

const (
	// asksTogether is how often a group is asked for within a fraction of a
	// round trip: a lost frame shouldn't cost one.
	asksTogether = 3
	// maxBackoff is how often the pause between asking doubles at most. A burst
	// of losses may span many repeats: each further one should not take long.
	maxBackoff = 4
	// maxPause bounds back-off, not a pause that is longer without it.
	maxPause = units.Second
	// maxAsks is the number at which asks stops counting.
	maxAsks = asksTogether * (maxBackoff + 1)
	// steadyAsks is how many frames follow each other closely when a round has brought
	// nothing, before the pauses grow: a burst of losses goes on from frame to frame
	// where no other packets go in that direction. maxSilence is the number at which the frames stop being counted.
	steadyAsks = 256
	maxSilence = steadyAsks + maxAsks
)

// pause is how long the receiver waits, having said something n times, before it
// says it again.
func (r *receiver) pause(n int) units.Duration {
	if n%asksTogether != 0 {
		return max(loss.RTT(r.env)/16, 2*loss.Interval(r.env))
	}
	round := r.round()
	return min(round<<max(0, n/asksTogether-1), max(round, maxPause))
}

// round is how long the answer to what the receiver asks for takes at most, as a rule.
func (r *receiver) round() units.Duration { return loss.RTT(r.env) + r.config.fallback(r.env) }

// retryAt is when what was said in vain at last is said again, where back-off has it due.
func (r *receiver) retryAt(due, last units.Instant) units.Instant {
	return r.env.RetryAt(due, last, r.round())
}

// silence is how long the receiver waits, having said something n times since anything
// arrived, before it says it again.
func (r *receiver) silence(n int) units.Duration {
	switch {
	case n <= asksTogether:
		return r.pause(n)
	case n <= asksTogether+steadyAsks:
		return max(loss.RTT(r.env)/32, 2*loss.Interval(r.env))
	}
	return r.pause(n - steadyAsks)
}

// asked records that group g has been asked for.
func (r *receiver) asked(now units.Instant, g int) {
	group := r.window.at(g)
	if group.asks == 0 {
		r.stats.Fallbacks++
		r.unanswered = 1
	}
	if r.unanswered > asksTogether {
		group.due = now.Add(r.silence(r.unanswered))
		return
	}
	if group.asks%asksTogether == 0 {
		r.stats.Timeouts++
	}
	if group.asks == maxAsks {
		group.asks -= asksTogether
	}
	group.asks++
	group.due = now.Add(r.pause(int(group.asks)))
}

// wants writes what those groups lack that are due, as far as there is room. The others stay
// due.
func (r *receiver) wants(now units.Instant, v scheme.View, w *frameWriter) {
	for _, n := range r.open {
		g := int(n)
		if r.window.at(g).state != lacking || now < r.due(g) {
			continue
		}
		if !r.want(v, w, g) {
			return
		}
		r.asked(now, g)
	}
}

// want asks for what group g lacks, or at first for all of it, if so configured.
func (r *receiver) want(v scheme.View, w *frameWriter, g int) bool {
	first := r.layout.first(g)
	if r.config.WholeSubmessage && r.window.at(g).asks < asksTogether {
		return w.want(first, first+r.layout.data(g))
	}
	r.group.load(&r.layout, v, g)
	return r.group.lacks(func(i int) bool { return w.want(first+i, first+i+1) })
}
