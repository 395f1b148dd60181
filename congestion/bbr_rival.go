// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A rivalWindow bounds what is in flight beside a competitor that fills the queue. The probe that
// found it told the path's capacity, too: what this flow held back, by how much less the packets
// waited for that. The window grows to rivalShare of that capacity with the queue, and holds it. Losses cut it to rivalCut, at most
// once in two round trips. Then it stands for rivalPause round trips, but the less of the share it has, the sooner it grows again: beside
// version 1 of BBR, which cuts for no loss, every share is an equilibrium with one product of buffer, and a flow that always
// waits vanishes. Flows of this kind that take each other for competitors become more equal by it, and those that have
// their share keep the losses rare.
type rivalWindow struct {
	window   units.Bytes
	capacity units.Rate
	cutAt    units.Instant
}

const (
	rivalShare  = 40 // hundredths
	rivalSteps  = 24 // round trips to grow from nothing to the share
	rivalCut    = 85 // hundredths
	rivalPause  = 10 // round trips
	rivalLittle = 42 // hundredths of the share: with less the pause is shorter, by the square
	// quietRounds in a row without a queue end a competition, and so do quietProbes probes that saw it gone, for a flow that has most of the path:
	// beside a competitor they may have come between two of its cuts.
	quietRounds  = 5
	quietProbes  = 3
	grainPackets = 16
	kindredFlows = 8  // that may share a path and are no competitors
	peakFade     = 64 // a second
	// mostCapacity is how many times this flow's own rate the capacity may seem to be, and heldPackets the least in flight before a probe
	// that tells it: what fewer make is lost in what the queue moves by itself.
	mostCapacity = 10
	heldPackets  = 6
)

// compete follows a probe that found that others fill the queue.
func (b *bbr) compete() {
	bw := b.bw()
	capacity := b.peak // the best guess where too little was held back
	if less := b.waited - (b.probing - b.minRTT); less > b.waited/8 && b.drained > heldPackets*b.path.MTU {
		capacity = min(max(units.RateOf(b.drained-b.bdp()/2, less), b.peak), max(bw*mostCapacity, b.peak))
	}
	w := &b.rival
	if !b.competing {
		b.competing, b.quiet = true, 0
		*w = rivalWindow{window: max(bw.Bytes(b.rtt()), b.bdp()), capacity: capacity}
	}
	w.capacity += (capacity - w.capacity) / 2
}

// step is a round in which so many bytes were lost, and so many are expected to be at random.
func (w *rivalWindow) step(now units.Instant, rtt units.Duration, lost, random, mtu units.Bytes, bw units.Rate) {
	goal := max(w.capacity/100*rivalShare, 0).Bytes(rtt)
	switch {
	case lost > 2*random+2*mtu:
		if now.Sub(w.cutAt) > 2*rtt {
			w.window, w.cutAt = w.window/100*rivalCut, now
		}
	case w.window < goal && now.Sub(w.cutAt) > w.pauseOf(goal, rtt):
		// Not much more than is in flight: else it would grow while there is nothing to send.
		w.window = min(w.window+goal/rivalSteps+mtu, goal, max(bw.Bytes(rtt)*3/2, w.window))
	}
}

// pauseOf is how long after a cut the window grows again.
func (w *rivalWindow) pauseOf(goal units.Bytes, rtt units.Duration) units.Duration {
	has := min(100*float64(w.window)/float64(rivalLittle*goal), 1)
	return units.Duration(rivalPause * has * has * float64(rtt))
}

// relax ends the competition when the queue stays empty though this flow doesn't hold back.
func (b *bbr) relax(queue units.Duration) {
	if queue > b.tolerance()+b.minRTT/16 {
		b.quiet = 0
		return
	}
	if b.quiet++; b.quiet >= quietRounds {
		b.yield()
	}
}

// yield ends the competition.
func (b *bbr) yield() { b.competing, b.fails, b.quiet = false, 0, 0 }
