// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// silentAfter is how many timeouts without any acknowledgement make a
	// sender stop repeating whatever times out, and probe.
	silentAfter = 3
	// probeUnits is how many units it then repeats at a time.
	probeUnits = 16
	// logAge is after how many timeouts an unconfirmed log entry is dropped.
	logAge = 8
)

// A timeoutRule declares a unit lost when its timeout has passed (paper, 4.1.1).
type timeoutRule struct {
	t *Tracker
	// While nothing arrives, interval is the time between probes, which are
	// repeats here, probed when the last went, nextProbe when the next may go and
	// quota how many units it may still repeat.
	interval          units.Duration
	probed, nextProbe units.Instant
	quota             int
}

func (r *timeoutRule) onAck(units.Instant) {}

func (r *timeoutRule) onSpurious(units.Instant, int) {}

func (r *timeoutRule) onCompleted(units.Instant) {}

func (r *timeoutRule) onSent(int, int) {}

func (r *timeoutRule) probe(units.Instant, *scheme.Output, int) units.Instant {
	return units.Never
}

// expire walks each log from its head: a path's units time out in the order in
// which they were sent.
func (r *timeoutRule) expire(now units.Instant) units.Instant {
	next := units.Never
	for c := range r.t.paths {
		p := &r.t.paths[c]
		rto := r.t.rto(p)
		for {
			head, ok := r.t.skip(c)
			if !ok {
				break
			}
			if due := head.at.Add(rto); now < due || !r.allow(now, rto) {
				next = min(next, max(due, r.probeDue(rto)))
				break
			}
			r.t.stats.Timeouts++
			r.t.declareLost(int(head.unit), Unproved)
			p.head++
		}
		p.trim(now, logAge*rto)
	}
	return next
}

// allow reports whether one more unit may be declared lost: always, unless nothing at
// all has been acknowledged for so long that the peer or the path may be gone.
func (r *timeoutRule) allow(now units.Instant, rto units.Duration) bool {
	if now.Sub(r.t.progress) < silentAfter*rto {
		r.interval, r.nextProbe = 0, 0
		return true
	}
	if now >= r.probeDue(rto) {
		r.interval = min(max(2*r.interval, rto), max(rto, maxTimeout))
		r.probed, r.nextProbe = now, now.Add(r.interval)
		r.quota = probeUnits
	}
	r.quota--
	return r.quota >= 0
}

// probeDue is when the next probe may go.
func (r *timeoutRule) probeDue(rto units.Duration) units.Instant {
	return r.t.env.RetryAt(r.nextProbe, r.probed, rto)
}
