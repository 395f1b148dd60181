// SPDX-License-Identifier: Apache-2.0

package netsim

import "github.com/sdr-rdma/go-sdr/units"

// A Port is the sending side of a wire: packets leave it one after the other at
// its rate. Since the queue in front of it is served in order, the time at which
// it will be idle is all the state there is.
type Port struct {
	rate        units.Rate
	limit, mark Time // of the backlog, as the time that it takes
	idle        Time
	first       Time // when the last of what has overtaken the queue has left
}

// Configure sets the rate and the limits of the queue; packets that have been
// taken keep their times.
func (p *Port) Configure(rate units.Rate, queue, markAbove units.Bytes) {
	p.rate, p.limit, p.mark = rate, Never, Never
	if queue > 0 {
		p.limit = Serialization(queue, rate)
	}
	if markAbove > 0 {
		p.mark = Serialization(markAbove, rate)
	}
}

// Take accepts n bytes at now and returns when the last of them has left, and
// whether they met congestion; or reports that the queue was full.
func (p *Port) Take(now Time, n units.Bytes) (left Time, marked, ok bool) {
	backlog := p.Backlog(now)
	if backlog > p.limit {
		return 0, false, false
	}
	p.idle = max(p.idle, now).Add(Serialization(n, p.rate))
	return p.idle, backlog > p.mark, true
}

// TakeFirst accepts n bytes at now that overtake all that waits but what has overtaken it before, whatever the limits, and returns
// when they have left: they take their time from what waits.
func (p *Port) TakeFirst(now Time, n units.Bytes) (left Time) {
	took := Serialization(n, p.rate)
	p.idle = max(p.idle, now).Add(took)
	p.first = max(p.first, now).Add(took)
	return p.first
}

// Backlog is how long what has been taken still occupies the port.
func (p *Port) Backlog(now Time) Time { return max(0, p.idle-now) }
