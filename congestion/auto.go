// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// Auto makes the controllers that are the default of package reliability, for a sender that knows nothing of its
// path: BBR's, but where the round trip is shorter than a millisecond, or the line rate is
// known, only from the first sign of a full queue on. Until then such a sender is limited by its host, its
// receiver and its line: a rate measured there would be that of processors, which share their time.
// It starts with ten packets, or 16 KiB of larger ones, and sends twice as many each round trip.
//
// Signs are a mark, a notification, a trimmed packet; and losses: in four intervals in a row, of at least
// 5 ms and enough packets each, more than one packet in 64, or where the line rate is known more than one in 16, because random
// losses alone must not slow down a sender that has been told its rate. What only a timer
// says is no sign: the host may have stood still.
func Auto() Factory {
	return func(p Path) Controller {
		a := &auto{bbr: newBBR(p), known: p.LineRate > 0}
		a.startWindow = atOnce(a.path.MTU)
		if p.Found.Rate > 0 && p.Found.MinRTT < shortRTT {
			a.state = warned // or no rate would have been found
		}
		return a
	}
}

// autoState is who limits.
type autoState uint8

const (
	// free: nobody, or in the first round trips a window that grows.
	free autoState = iota
	// searching: bbr, because the path is long and its rate unknown.
	searching
	// warned: bbr, because a queue was full.
	warned
)

type auto struct {
	*bbr  // told of everything in every state
	state autoState
	known bool           // the line rate
	least units.Duration // round trip of the path; 0: none was measured
	// startWindow limits in state free where the line rate is unknown: it is twice what was ever on its way without losses.
	startWindow units.Bytes

	begun units.Instant // of an interval
	lossy int           // intervals in a row that lost too much
	count lossCount     // of this one
}

const (
	// mostWindow limits nobody whose round trip is short.
	mostWindow = units.GiB
	// mostCounted keeps forged sizes within what sums can hold.
	mostCounted = units.TiB
	// lossyInterval and lossyRTTs are the least length of an interval, lossyPackets the least that
	// must get lost in it.
	lossyInterval = 5 * units.Millisecond
	lossyRTTs     = 2
	lossyPackets  = 16
	// lossyShare-th lost is too much, knownShare-th where the line rate is known, in lossyIntervals.
	lossyShare     = 64
	knownShare     = 16
	lossyIntervals = 4
)

// OnAck takes feedback.
func (a *auto) OnAck(now units.Instant, ack *Ack) {
	a.bbr.OnAck(now, ack)
	switch {
	case ack.Least > 0:
		a.least = ack.Least
	case ack.RTT > 0 && (a.least == 0 || ack.RTT < a.least):
		a.least = ack.RTT
	}
	if a.state != warned {
		// One sample may be late by a scheduler's whim; the least is the path.
		if a.state = free; !a.known && a.least >= shortRTT {
			a.state = searching
			a.begun, a.count = a.now, lossCount{}
		}
	}
	if a.state != free {
		return
	}
	n := min(max(ack.Acked, 0), mostCounted)
	// Where less was on its way it wasn't the window that limited.
	if max(ack.Inflight, 0) >= a.startWindow/2-n && a.lossy == 0 && a.count.lost == 0 {
		a.startWindow = min(a.startWindow+min(n, a.startWindow), mostWindow)
	}
	a.count.all += n
	if ack.ECN {
		a.warn()
		return
	}
	a.judge(a.now)
}

// OnCNP takes a notification.
func (a *auto) OnCNP(now units.Instant) {
	a.bbr.OnCNP(now)
	a.warn()
}

// OnLoss takes losses.
func (a *auto) OnLoss(now units.Instant, l Loss) {
	a.bbr.OnLoss(now, l)
	switch n := min(max(l.Bytes, 0), mostCounted); l.Kind {
	case LossTimeout, LossUnacknowledged, LossGuessed: // a blackout, or nothing
	case LossTrim:
		a.warn()
	default:
		if a.state == free {
			a.count.add(n, n)
			a.judge(a.now)
		}
	}
}

// judge ends an interval when its time has come.
func (a *auto) judge(now units.Instant) {
	if a.state != free || now.Sub(a.begun) < max(lossyInterval, lossyRTTs*a.rtt()) {
		return
	}
	switch {
	case a.tooLossy():
		a.lossy++
	case a.count.all < lossyPackets*a.lossShare()*a.path.MTU:
		return // so few packets say nothing yet
	default:
		a.lossy = 0
	}
	if a.lossy >= lossyIntervals {
		a.warn()
	}
	a.begun, a.count = now, lossCount{}
}

// tooLossy reports whether too much was lost in this interval.
func (a *auto) tooLossy() bool {
	return a.count.lost >= lossyPackets*a.path.MTU && a.count.lost > a.count.all/a.lossShare()
}

// lossShare is how small a part of all is too much to be lost.
func (a *auto) lossShare() units.Bytes {
	if a.known {
		return knownShare
	}
	return lossyShare
}

// warn lets bbr take over, with what it has found out, from a queue that is full now.
func (a *auto) warn() {
	if a.state == free {
		a.takeOver()
	}
	a.state = warned
}

// takeOver drains the queue that others' limits have filled.
func (b *bbr) takeOver() {
	switch {
	case b.bw() == 0: // nothing has been delivered yet: start anew
	case b.phase == startup:
		b.leaveStartup()
	default:
		b.enter(drain)
	}
	b.decide()
}

// Limits are bbr's where it limits.
func (a *auto) Limits(now units.Instant) (units.Rate, units.Bytes) {
	if a.state != free {
		return a.bbr.Limits(now)
	}
	if a.known {
		return 0, 0
	}
	return 0, a.startWindow
}

// Next is bbr's where it limits.
func (a *auto) Next() units.Instant {
	if a.state != free {
		return a.bbr.Next()
	}
	return units.Never
}

// Model implements Modeler.
func (a *auto) Model() Model {
	m := a.bbr.Model()
	switch a.state {
	case free:
		m.Rate, m.State, m.Full = 0, freeState, a.lossy > 0 || a.tooLossy()
	case searching: // because of this round trip
		m.MinRTT = a.least
	}
	return m
}

// freeState is the Model.State of a sender that nothing limits.
const freeState = "free"
