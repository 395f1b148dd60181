// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// darkAfter is how many timeouts without any acknowledgement make a
	// sender stop repeating whatever times out.
	darkAfter = 3
	// darkProbes is how many units it then repeats at a time.
	darkProbes = 16
	// logAge is after how many timeouts an unconfirmed log entry is dropped.
	logAge = 8
)

// A timeoutRule repeats a unit when its timeout has passed (paper, 4.1.1).
type timeoutRule struct {
	s *sender
	// In the dark, interval is the time between probes, nextProbe when the
	// next may go and quota how many units it still may repeat.
	interval  units.Duration
	nextProbe units.Instant
	quota     int
}

func (r *timeoutRule) onAck(units.Instant) {}

func (r *timeoutRule) onSpurious(units.Instant, int) {}

func (r *timeoutRule) onCompleted(units.Instant) {}

func (r *timeoutRule) onSent(units.Instant, int, int) {}

func (r *timeoutRule) probe(units.Instant, *scheme.Output, int) units.Instant {
	return units.Never
}

// expire walks each log from its head: a path's units time out in the order in
// which they were sent.
func (r *timeoutRule) expire(now units.Instant) units.Instant {
	next := units.Never
	for c := range r.s.paths {
		p := &r.s.paths[c]
		rto := r.s.rto(p)
		for {
			head, ok := r.s.skip(c)
			if !ok {
				break
			}
			if due := head.at.Add(rto); now < due || !r.allow(now, rto) {
				next = min(next, max(due, r.nextProbe))
				break
			}
			r.s.stats.Timeouts++
			r.s.lose(int(head.unit), false)
			p.head++
		}
		p.trim(now, logAge*rto)
	}
	return next
}

// allow reports whether one more unit may be repeated: always, unless nothing at
// all has been heard for so long that it would be shouting into the void.
func (r *timeoutRule) allow(now units.Instant, rto units.Duration) bool {
	if now.Sub(r.s.progress) < darkAfter*rto {
		r.interval, r.nextProbe = 0, 0
		return true
	}
	if now >= r.nextProbe {
		r.interval = min(max(2*r.interval, rto), max(rto, maxTimeout))
		r.nextProbe = now.Add(r.interval)
		r.quota = darkProbes
	}
	r.quota--
	return r.quota >= 0
}
