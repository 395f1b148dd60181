// SPDX-License-Identifier: Apache-2.0

package reliability

import "github.com/sdr-rdma/go-sdr/units"

// A pacer limits what a Conn sends: a rate, configured or found, and a window.
// It has no clock; now is an argument.
type pacer struct {
	unit       units.Bytes
	configured units.Rate
	found      units.Rate // 0 while only the window limits
	search     rateSearch

	rtt, minRTT units.Duration
	peerWindow  units.Bytes
	// next is when the unit after the last one sent may go: the virtual
	// clock of the paced link.
	nextAt units.Instant
	// lead is how far ahead of that clock units may go, and grain how much of it
	// is used up before more do. 0 in virtual time.
	lead, grain units.Duration
	// limited: there was more to send when the pacer last said no. Only then
	// may what a late worker missed be caught up with; an idle sender doesn't
	// save up for a burst.
	limited bool
	// Without a rate the receiver's window also bounds what is sent, repeats
	// included, while nothing is heard from the receiver: it may just not be
	// running, and would be overrun by repeats of what waits in its socket.
	unheard   int
	trickleAt units.Instant
}

// A silent receiver gets trickleUnits every trickleEvery, so that nothing waits
// for an acknowledgement that was lost.
const (
	trickleUnits = 16
	trickleEvery = 10 * units.Millisecond
)

// Units go in bursts of a grain, so that a worker is needed a few thousand times a
// second, not for each of them. A configured rate is that of the link, which stands
// still while a worker is late, so a few units are kept waiting there: a lead, a share
// of the round trip that no estimate of it notices, and no more than a NIC sends back
// to back.
const (
	grains   = 64
	maxGrain = 500 * units.Microsecond
	leads    = 16
	maxLead  = 256 * units.KiB
)

// shortRTT is the round trip below which a rate needn't be found: the
// receiver's window limits.
const shortRTT = units.Millisecond

// rate is the rate of user data, 0 for none.
func (p *pacer) rate() units.Rate {
	if p.configured != 0 {
		return p.configured
	}
	return p.found
}

// update takes what the connection has learnt.
func (p *pacer) update(now units.Instant, c *Conn) {
	p.unit, p.configured = c.cfg.Unit, c.cfg.Rate
	p.rtt, p.minRTT = c.env.RTT, c.env.MinRTT
	p.peerWindow = c.qp.PeerWindow()
	if p.configured == 0 {
		p.found = p.search.step(now, p.rtt, p.minRTT, p.unit)
	}
	if !c.qp.Context().Caps().Virtual {
		p.ahead()
	}
	behind := units.Duration(0)
	if p.limited {
		behind = p.quantum()
	}
	p.nextAt = max(p.nextAt, now.Add(-behind))
}

// ahead sets lead and grain.
func (p *pacer) ahead() {
	r := p.rate()
	if r == 0 {
		return
	}
	p.lead = min(p.minRTT/leads, r.Time(maxLead))
	p.grain = min(p.minRTT/grains, maxGrain, p.lead)
	if p.configured == 0 {
		p.lead = p.grain // the search looks for queues
	}
}

// quantum is how far sending may catch up after the worker was late: a burst of
// that length. Workers share processors with others and wake up milliseconds
// late. A share of the least round trip, because the smoothed one grows when workers
// are late, and with it the burst; bounded by what the receiver takes back to back.
func (p *pacer) quantum() units.Duration {
	r := p.rate()
	if r == 0 {
		return 0
	}
	q := max(p.minRTT/8, 3*units.Millisecond)
	if p.peerWindow > 0 {
		q = min(q, r.Time(p.peerWindow/4))
	}
	return max(q, r.Time(p.unit))
}

// budget is how many units may be sent at now.
func (p *pacer) budget(now units.Instant) int {
	r := p.rate()
	if r == 0 {
		return p.unpaced(now)
	}
	if p.due() > now {
		return 0
	}
	per := r.Time(p.unit)
	if per <= 0 {
		return maxBudget
	}
	return int((now.Sub(p.nextAt)+p.lead)/per) + 1
}

// due is when the next burst should go.
func (p *pacer) due() units.Instant { return p.nextAt.Add(p.grain - p.lead) }

// unpaced is the budget where only the receiver's window limits.
func (p *pacer) unpaced(now units.Instant) int {
	left := p.window() - p.unheard
	if left <= 0 && now >= p.trickleAt {
		left = trickleUnits
	}
	return min(max(left, 0), maxBudget)
}

// heard notes a sign of life of the receiver: a frame of its core, or that it has
// completed a message, which is all that one says who gets a small transfer whole.
func (p *pacer) heard() { p.unheard = 0 }

// spend books n units sent at now.
func (p *pacer) spend(now units.Instant, n int) {
	if n == 0 {
		return
	}
	p.search.sent(units.Bytes(n) * p.unit)
	if p.unheard += n; p.unheard >= p.window() {
		p.trickleAt = now.Add(trickleEvery)
	}
	if r := p.rate(); r != 0 {
		p.nextAt = p.nextAt.Add(r.Time(units.Bytes(n) * p.unit))
	}
}

// next is when budget will be positive.
func (p *pacer) next(now units.Instant) units.Instant {
	if p.rate() == 0 {
		if p.unheard >= p.window() {
			return max(now, p.trickleAt)
		}
		return now
	}
	return max(now, p.due())
}

// delivered books n bytes that the receiver reported in place.
func (p *pacer) delivered(n units.Bytes) { p.search.delivered(n) }

// untold books n units, of those sent last, of which nothing will be heard.
func (p *pacer) untold(n int) { p.search.untold(units.Bytes(n) * p.unit) }

// window is how many units may be sent and not yet reported received or lost.
// Paced, it covers the round trip, the timeout of three more that detects a
// loss, and reporting; at a rate that is still searched for, two round trips of it,
// so that what is wrong about it fills no queue; otherwise what the receiver takes back
// to back.
func (p *pacer) window() int {
	const unlimited = 1 << 30
	if r := p.rate(); r != 0 {
		if p.configured == 0 {
			return max(firstUnits, int(r.Bytes(2*p.minRTT+2*units.Millisecond)/p.unit))
		}
		rtt := max(p.rtt, 100*units.Microsecond)
		w := r.Bytes(5*rtt + 2*units.Millisecond)
		return max(16, int(w/p.unit))
	}
	if p.peerWindow == 0 {
		return unlimited
	}
	return max(2, int(p.peerWindow/p.unit))
}
