// SPDX-License-Identifier: Apache-2.0

package bottleneck

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// BBRv1 is a TCP sender with version 1 of BBR (Cardwell et al., "BBR: Congestion-Based Congestion
// Control", ACM Queue 14, 2016): the largest delivery rate of ten round trips, the least round trip
// of ten seconds, the gain cycle 1.25, 0.75, 1 …, a window of two products, and 200 ms at four
// packets every ten seconds. Losses don't move it. It is the competitor that is hardest on others.
type BBRv1 struct {
	Packet units.Bytes

	rates   [10]units.Rate
	round   int
	since   units.Instant // of this round
	sent    units.Bytes
	goal    units.Bytes // of sent, at which the round ends
	got     units.Bytes
	least   units.Duration
	leastAt units.Instant

	full    units.Rate
	stalls  int
	filled  bool
	drained bool
	phase   int
	phaseAt units.Instant
	quiet   units.Instant // end of the probe of the round trip
}

var bbrGains = [8]units.Rate{125, 75, 100, 100, 100, 100, 100, 100}

func (c *BBRv1) bw() (r units.Rate) {
	for _, x := range c.rates {
		r = max(r, x)
	}
	return r
}

// OnSent counts.
func (c *BBRv1) OnSent(_ units.Instant, n, _ units.Bytes) { c.sent += n }

// OnCNP does nothing.
func (c *BBRv1) OnCNP(units.Instant) {}

// OnLoss does nothing.
func (c *BBRv1) OnLoss(units.Instant, congestion.Loss) {}

// Next is never.
func (c *BBRv1) Next() units.Instant { return units.Never }

// OnAck takes a sample.
func (c *BBRv1) OnAck(now units.Instant, a *congestion.Ack) {
	c.got += a.Acked
	if c.least == 0 || a.RTT <= c.least || now.Sub(c.leastAt) > 10*units.Second {
		if c.least != 0 && a.RTT > c.least && c.quiet == 0 {
			c.quiet = now.Add(200*units.Millisecond + a.RTT)
			c.least, c.leastAt = a.RTT, now
		}
		if a.RTT <= c.least || c.least == 0 {
			c.least, c.leastAt = a.RTT, now
		}
	}
	if c.quiet != 0 && now > c.quiet {
		c.quiet, c.leastAt = 0, now
	}
	if c.sent-a.Inflight < c.goal {
		return
	}
	c.goal = c.sent
	if c.since != 0 && c.quiet == 0 {
		c.round++
		c.rates[c.round%len(c.rates)] = units.RateOf(c.got, now.Sub(c.since))
		c.judge(a)
	}
	c.since, c.got = now, 0
}

func (c *BBRv1) judge(a *congestion.Ack) {
	bw := c.bw()
	switch {
	case !c.filled && bw > c.full*5/4:
		c.full, c.stalls = bw, 0
	case !c.filled:
		if c.stalls++; c.stalls == 3 {
			c.filled = true
		}
	case !c.drained:
		c.drained = a.Inflight <= bw.Bytes(c.least)
	}
}

// Limits are the pacing rate and the window.
func (c *BBRv1) Limits(now units.Instant) (units.Rate, units.Bytes) {
	bw := c.bw()
	if bw == 0 {
		return 0, 10 * c.Packet
	}
	window := max(2*bw.Bytes(c.least), 4*c.Packet)
	switch {
	case c.quiet != 0:
		return bw, 4 * c.Packet
	case !c.filled:
		return bw * 289 / 100, max(bw.Bytes(c.least)*289/100, 10*c.Packet)
	case !c.drained:
		return bw * 100 / 289, window
	}
	if now.Sub(c.phaseAt) > c.least {
		c.phase, c.phaseAt = (c.phase+1)%len(bbrGains), now
	}
	return bw / 100 * bbrGains[c.phase], window
}
