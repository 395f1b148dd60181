// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A rivalWindow bounds what is in flight beside a competitor that fills the queue. The probe that
// found it told the path's capacity, too: what this flow held back, by how much less the packets
// waited for that. The window grows to rivalShare of that capacity with the queue, and holds it. Few
// losses, as CUBIC's last step into a full queue makes them, cost a tenth of it at most once in
// rivalPause round trips, many as much as CUBIC gives up.
type rivalWindow struct {
	window   units.Bytes
	capacity units.Rate
	cutAt    units.Instant
}

const (
	rivalShare   = 40 // hundredths
	rivalSteps   = 24 // round trips to grow from nothing to the share
	rivalPause   = 10 // round trips
	grainPackets = 16
	peakFade     = 64 // a second
	// mostCapacity is how many times this flow's own rate the capacity may seem to be.
	mostCapacity = 10
)

// compete follows a probe that found that others fill the queue.
func (b *bbr) compete() {
	bw := b.bw()
	capacity := b.peak // the best guess where too little was held back
	if less := b.waited - (b.probing - b.minRTT); less > b.waited/8 {
		capacity = min(max(units.RateOf(b.drained-b.bdp()/2, less), bw), max(bw*mostCapacity, b.peak))
	}
	w := &b.rival
	if !b.competing {
		b.competing = true
		*w = rivalWindow{window: max(bw.Bytes(b.rtt()), b.bdp()), capacity: capacity}
	}
	w.capacity += (capacity - w.capacity) / 2
}

// step is a round of n bytes of which some were lost, and so many as expected at random.
func (w *rivalWindow) step(now units.Instant, rtt units.Duration, n, lost, random, mtu units.Bytes, bw units.Rate) {
	switch {
	case lost > n*lossBound/1000+2*random+2*mtu:
		if now.Sub(w.cutAt) > 2*rtt {
			w.window, w.cutAt = w.window/10*7, now
		}
		return
	case lost > 2*random:
		if now.Sub(w.cutAt) > rivalPause*rtt {
			w.window, w.cutAt = w.window/10*9, now
		}
		return
	}
	goal := max(w.capacity/100*rivalShare, 0).Bytes(rtt)
	if w.window < goal && now.Sub(w.cutAt) > rivalPause*rtt {
		// Not much more than is in flight: else it would grow while there is nothing to send.
		w.window = min(w.window+goal/rivalSteps+mtu, goal, max(bw.Bytes(rtt)*3/2, w.window))
	}
}
