// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A rxState is how far a group is at the receiver.
type rxState uint8

const (
	// lacking says that more units are needed.
	lacking rxState = iota
	// recoverable says that the group can be decoded, and no job is running yet.
	recoverable
	// decoding says that a job is running.
	decoding
	// complete says that all data units are in place.
	complete
)

// A rxGroup is what the receiver keeps of a group from when something of it was
// expected until all groups up to it are complete.
type rxGroup struct {
	state rxState
	// have is how many units are in place, at the last look.
	have uint8
	// passed says that the group's last unit has arrived, or something that was sent after the group.
	passed bool
	// asks counts how often the group was asked for; it is 0 until the group falls back.
	asks int8
	// due is when to ask next; for a group that hasn't passed it is only
	// an expectation, which moves with what arrives (fallback.go).
	due units.Instant
	// checkAt is when to look at the group again, if there are many.
	checkAt units.Instant
}

// A receiver is the receiving half: it follows the groups (this file), decodes
// them (decode.go), asks for what decoding lacks (fallback.go) and reports
// (report.go).
type receiver struct {
	config Config
	layout layout
	env    *scheme.Env

	// window is of the groups that something was expected of; all below it are complete.
	// open are those of it that aren't complete, in order.
	window window[rxGroup]
	open   []uint32
	// have is the first data unit that may be missing.
	have int
	// lacking is how many of open are lacking, askAt when the next of them
	// falls back, and dueAt when the first is to be asked for.
	lacking      int
	askAt, dueAt units.Instant

	pace  pace
	jobs  [maxJobs]job
	group groupView

	// Reporting.
	arrivals uint64
	started  bool
	number   uint64
	lastAt   units.Instant
	// repeats counts the frames since anything arrived. unanswered counts those that
	// asked for units since anything arrived or a group fell back, and askedAt is when
	// the last of them did.
	repeats, unanswered int
	askedAt             units.Instant
	fresh               bool // something arrived since the last frame
	allSaid             bool // the last frame said that all groups are recoverable
	rotor               int

	stats scheme.Stats
}

func newReceiver(c Config, p params, t scheme.Transfer, env *scheme.Env) *receiver {
	r := &receiver{config: c, layout: newLayout(p, t.Units), env: env}
	r.pace = pace{unit: p.unitTime, paced: p.unitTime, newest: -1}
	r.stats.K, r.stats.M = p.k, p.m
	return r
}

var errNoFrames = errors.New("ec: the sender's half sends no frames")

// OnControl refuses all frames.
func (r *receiver) OnControl(units.Instant, []byte) error { return errNoFrames }

func (r *receiver) Stats() scheme.Stats { return r.stats }

// Poll looks at what has arrived, starts decoding, and reports.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	r.loadMarks(now, v)
	r.have = v.NextMissing(r.have)
	r.followSender(now, v)
	r.scan(now, v, out)
	out.ParityFree = r.window.base * r.layout.m
	if r.window.base == r.layout.groups {
		return units.Never, true, nil
	}
	if now >= r.frameDue() && r.report(now, v, out) {
		r.lastAt = now
	}
	return r.wake(now), false, nil
}

// loadMarks learns from the marks how far the sender has got, and whether
// anything has arrived since the last time.
func (r *receiver) loadMarks(now units.Instant, v scheme.View) {
	if !r.started {
		// START has arrived, and a unit may have arrived before it.
		r.started = true
		r.lastAt = now.Add(-loss.Interval(r.env))
		r.pace.begin(min(now, v.First()))
	}
	var arrivals uint64
	for c := range r.env.Channels {
		m := v.Mark(c)
		if !m.Valid {
			continue
		}
		// The sum needs only change when something arrives.
		arrivals += m.Count + 1
		if p, ok := r.layout.position(m.Unit); ok { // no probe
			r.pace.reached(now, p)
		}
	}
	if arrivals != r.arrivals {
		r.arrivals, r.fresh = arrivals, true
		r.repeats, r.unanswered = 0, 0
	}
}

// followSender opens the groups that something has arrived of or should have by now, and
// marks those that have passed.
func (r *receiver) followSender(now units.Instant, v scheme.View) {
	r.peek(now, v)
	to := r.window.base
	if r.pace.newest >= 0 {
		to = r.layout.group(r.pace.newest) + 1
	}
	for r.window.next < min(max(to, (r.have+r.layout.k-1)/r.layout.k), r.layout.groups) {
		r.openNext()
	}
	for r.window.next < r.layout.groups && now >= r.expected(r.window.next) {
		r.openNext()
	}
	// Only the newest groups can be new among the passed.
	for i := len(r.open) - 1; i >= 0; i-- {
		g := int(r.open[i])
		group := r.window.at(g)
		if group.passed {
			break
		}
		if r.layout.last(g) <= r.pace.newest {
			group.passed = true
			if group.asks == 0 {
				group.due = now.Add(r.config.fallback(r.env))
			}
		}
	}
}

// peek looks for units just behind what has been seen: a repeat that arrived after
// them hides them from the marks.
func (r *receiver) peek(now units.Instant, v scheme.View) {
	from := r.window.next * r.layout.k
	to := min(from+2*r.layout.k, r.layout.units)
	if u := v.NextPresent(from, to); u < to {
		p, _ := r.layout.position(scheme.Unit(u))
		r.pace.reached(now, p)
	}
}

func (r *receiver) openNext() {
	r.open = append(r.open, uint32(r.window.next))
	r.window.push(rxGroup{due: units.Never})
}

// fewGroups is how many open groups are looked at whenever anything happens. When
// there are more, those of which nothing new is expected wait.
const fewGroups = 32

// scan looks at the open groups and drops those that are complete.
func (r *receiver) scan(now units.Instant, v scheme.View, out *scheme.Output) {
	kept := r.open[:0]
	few := len(r.open) <= fewGroups
	for _, n := range r.open {
		g := int(n)
		group := r.window.at(g)
		if group.state == lacking && r.have >= r.layout.first(g)+r.layout.data(g) {
			group.state = complete
		}
		if group.state == lacking && (few || now >= group.checkAt) {
			r.checkGroup(now, v, g)
		}
		if group.state == recoverable {
			r.decode(v, g, out)
		}
		if group.state != complete {
			kept = append(kept, n)
		}
	}
	r.open = kept
	r.window.base = r.window.next
	if len(kept) > 0 {
		r.window.base = int(kept[0])
	}
	r.plan()
}

// checkGroup updates the state of a group from the bitmap.
func (r *receiver) checkGroup(now units.Instant, v scheme.View, g int) {
	group := r.window.at(g)
	r.group.load(&r.layout, v, g)
	group.have = uint8(r.group.have())
	switch {
	case len(r.group.missing) == 0:
		group.state = complete
	case r.group.decodable():
		group.state = recoverable
	case group.asks > 0:
		group.checkAt = now.Add(loss.RTT(r.env) / 4)
	case group.passed:
		group.checkAt = now.Add(loss.Interval(r.env))
	}
}
