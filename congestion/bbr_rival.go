// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A rivalry is whether others are thought to fill the queue. Probes of the least round trip find that out: the first after which the queue is
// still filled raises a suspicion, and the next begins the competition (compete). That ends (yield) after quietProbes that saw the queue gone, when the
// queue stays empty without such a probe (relax), when it turns out that the way has become longer, and, on trial, when flows of this kind have drained
// the queue together (commonDrain).
type rivalry uint8

const (
	alone rivalry = iota
	suspected
	competing
)

// A rivalWindow bounds what is in flight beside a competitor that fills the queue. The probe that
// found it told the path's capacity, too: what this flow held back, by how much less the packets
// waited for that. The window grows towards rivalShare of that capacity with the queue.
//
// How many packets may get lost meanwhile depends on how much of that it has: with all of it none but random ones, with next to none rivalLoss.
// Version 1 of BBR cuts for no loss, and its probes fill the buffer: beside it every share is an equilibrium with one product of buffer, and a
// flow that answers each loss vanishes. Flows of this kind that take each other for competitors lose equally many, and so become equal.
type rivalWindow struct {
	window   units.Bytes
	capacity units.Rate
	lost     float64 // share of what was sent lately, random losses left out
	cutAt    units.Instant
	quietAt  units.Instant // since when the competitor leaves the queue empty; 0: it doesn't
}

const (
	// rivalShare is the share of the capacity that the window grows to, in hundredths, and rivalSteps in how many round trips it grows
	// there from nothing.
	rivalShare = 40
	rivalSteps = 12
	// rivalLoss is the share of packets that may get lost with next to nothing of that, averaged over some rivalRounds.
	rivalLoss   = 0.2
	rivalRounds = 8
	// rivalCut is what is left of the window, in hundredths, where more get lost, once in rivalRest round trips.
	rivalCut  = 92
	rivalRest = 2
	// quietRounds without a queue, quietTime at least, end a competition: version 1 of BBR empties the queue for 200 ms and a round trip by itself.
	// So do quietProbes probes that saw it gone, for a flow that has most of the path: beside a competitor they may have come between two of its cuts.
	quietRounds = 5
	quietTime   = 600 * units.Millisecond
	quietProbes = 3
	// leastCapacity and mostCapacity are how many times this flow's own rate the capacity may seem to be. The least is bounded by leastPeaks
	// times what this flow ever had, which is enough to begin with, and too little to keep a queue by itself: leastPeaks times rivalShare is
	// less than all.
	leastCapacity = 4
	leastPeaks    = 2
	mostCapacity  = 10
	// heldPackets is the most in flight before a probe that tells no capacity: what so few make is lost in what the queue moves by itself.
	heldPackets = 6
)

// compete follows a probe that found that others fill the queue.
func (b *bbr) compete() {
	bw := b.bw()
	capacity := b.peak // the best guess where too little was held back
	if less := b.probe.wait - (b.probe.least - b.base()); less > b.probe.wait/8 && b.probe.inflight > heldPackets*b.path.MTU {
		capacity = min(max(units.RateOf(b.probe.inflight-b.bdp()/2, less), b.peak), max(bw*mostCapacity, b.peak))
	}
	w := &b.rival
	if b.rivalry != competing {
		b.rivalry, b.common.trialAt = competing, 0
		*w = rivalWindow{window: bw.Bytes(b.rtt()), capacity: capacity}
	}
	w.capacity += (capacity - w.capacity) / 2
}

// step is a round in which n bytes were answered, so many of them lost, and so many are expected to be at random.
func (w *rivalWindow) step(now units.Instant, rtt units.Duration, n, lost, random units.Bytes, bw, peak units.Rate) {
	goal := (max(w.capacity, min(bw*leastCapacity, peak*leastPeaks)) / 100 * rivalShare).Bytes(rtt)
	w.lost += (float64(max(lost-random, 0))/float64(max(n, 1)) - w.lost) / rivalRounds
	lacks := max(1-float64(w.window)/float64(max(goal, 1)), 0)
	many := w.lost > rivalLoss*lacks*lacks
	switch {
	case now.Sub(w.cutAt) <= rivalRest*rtt:
	case many && lost > random:
		w.window, w.cutAt = w.window/100*rivalCut, now
	case !many && w.window < goal:
		// Not much more than is in flight: else it would grow while there is nothing to send.
		w.window = min(w.window+goal/rivalSteps, goal, max(bw.Bytes(rtt)*3/2, w.window))
	}
}

// pathRate is the most that the path is known to carry, by this flow and by what its probes beside a competitor told.
func (b *bbr) pathRate() units.Rate { return max(b.peak, b.rival.capacity) }

// relax ends the competition when the queue stays empty though this flow doesn't hold back.
func (b *bbr) relax(queue units.Duration) {
	switch {
	case queue > b.tolerance()+b.minRTT/16:
		b.rival.quietAt = 0
	case b.rival.quietAt == 0:
		b.rival.quietAt = b.now
	case b.now.Sub(b.rival.quietAt) > max(quietTime, (quietRounds-1)*b.rtt()):
		b.yield()
	}
}

// yield ends the competition, or the suspicion.
func (b *bbr) yield() { b.rivalry, b.probe.gone, b.rival.quietAt = alone, 0, 0 }

// forgetRival follows a blackout, which a competitor may not have outlived. The next probe that finds the queue filled begins the competition anew;
// where the last one had seen the queue gone it raises a suspicion, as any first one does.
func (b *bbr) forgetRival() {
	switch {
	case b.rivalry != competing:
	case b.probe.gone > 0:
		b.rivalry = alone
	default:
		b.rivalry = suspected
	}
}
