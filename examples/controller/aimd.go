// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// An aimd is a window that grows by one packet each round trip and is halved for losses, at most once in
// one (RFC 5681, section 3.1), paced over the round trip. It reads no clock: each call says when it is.
type aimd struct {
	mtu    units.Bytes
	window units.Bytes
	slow   bool // slow start: nothing has been lost yet
	rtt    units.Duration
	cut    units.Instant // losses until a round trip later are answered
}

// newAIMD is a congestion.Factory.
func newAIMD(p congestion.Path) congestion.Controller {
	return &aimd{mtu: p.MTU, window: 10 * p.MTU, slow: true, rtt: 10 * units.Millisecond}
}

func (a *aimd) OnSent(units.Instant, units.Bytes, units.Bytes) {}

func (a *aimd) OnAck(_ units.Instant, ack *congestion.Ack) {
	if ack.Smoothed > 0 {
		a.rtt = ack.Smoothed
	}
	if a.slow {
		a.window += ack.Acked
	} else {
		a.window += a.mtu * ack.Acked / a.window
	}
}

func (a *aimd) OnCNP(now units.Instant) { a.halve(now) }

func (a *aimd) OnLoss(now units.Instant, l congestion.Loss) {
	if l.Kind != congestion.LossUnacknowledged { // that only says that nobody will tell
		a.halve(now)
	}
}

func (a *aimd) halve(now units.Instant) {
	if now < a.cut {
		return
	}
	a.window, a.slow, a.cut = max(a.window/2, 2*a.mtu), false, now.Add(a.rtt)
}

// Limits paces the window over the round trip, so that it doesn't leave in one burst.
func (a *aimd) Limits(units.Instant) (units.Rate, units.Bytes) {
	return units.RateOf(a.window, a.rtt), a.window
}

func (a *aimd) Next() units.Instant { return units.Never }
