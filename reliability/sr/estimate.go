// SPDX-License-Identifier: Apache-2.0

package sr

import "github.com/sdr-rdma/go-sdr/units"

const (
	// initialRTT is assumed before anything was measured: QUIC's value (RFC
	// 9002, 6.2.2), which gives a first timeout of a second.
	initialRTT = 333 * units.Millisecond
	// maxTimeout bounds back-off, not a timeout that is longer without it.
	maxTimeout = units.Second
	// maxSlack and maxReorder bound how tolerant of reordering inside a
	// channel a sender becomes: packets, and eighths of a round trip.
	maxSlack   = 64
	maxReorder = 8
	// forget is after how many round trips without a spurious repeat
	// tolerance is halved, as in RFC 8985, 6.2, step 4.
	forget = 16
	// maxPerRTT bounds how many samples a round trip is thought to bring.
	maxPerRTT = 32
)

// An estimate is what is known of one channel, across transfers.
type estimate struct {
	// srtt and rttvar are smoothed as in RFC 6298 from the marks: they
	// include the wait for the next frame. minRTT is the smallest sample.
	// 0 means not measured. The first deviation is a sixteenth of the sample,
	// not half: frames are regular, and half would make the first timers of
	// every connection three round trips.
	srtt, rttvar, minRTT units.Duration
	// slack is how many later packets must have arrived, beyond the first,
	// before a hole counts as a loss; reorder widens, in eighths of minRTT,
	// the time that must have passed.
	slack   uint64
	reorder units.Duration
	// widened is when tolerance last changed.
	widened units.Instant
}

// sample takes a round-trip time, of which there is one every so often. The
// deviation rises as in RFC 6298, but falls as if there were one sample a round
// trip (RFC 7323, appendix G): with a frame every 32nd of it, what a host did that
// was late once would be forgotten before it is late again, and each time the
// timers would repeat what had arrived.
func (e *estimate) sample(rtt, every units.Duration) {
	if e.srtt == 0 {
		e.srtt, e.rttvar, e.minRTT = rtt, rtt/16, rtt
		return
	}
	e.minRTT = min(e.minRTT, rtt)
	if d := max(e.srtt-rtt, rtt-e.srtt); d > e.rttvar {
		e.rttvar += (d - e.rttvar) / 4
	} else {
		perRTT := min(max(e.srtt/max(every, 1), 1), maxPerRTT)
		e.rttvar -= (e.rttvar - d) / (4 * perRTT)
	}
	e.srtt += (rtt - e.srtt) / 8
}

// patience is τ: how long after it was sent a packet may still arrive behind later
// packets of its channel.
func (e *estimate) patience() units.Duration { return e.minRTT + e.minRTT/8*e.reorder }

// widen makes the channel more tolerant after a repeat that was not needed, once
// a round trip.
func (e *estimate) widen(now units.Instant) {
	if e.tolerant() && now.Sub(e.widened) < e.srtt {
		return
	}
	e.slack = min(2*e.slack+1, maxSlack)
	e.reorder = min(e.reorder+1, maxReorder)
	e.widened = now
}

// decay undoes widening with time.
func (e *estimate) decay(now units.Instant) {
	if e.tolerant() && now.Sub(e.widened) > forget*e.srtt {
		e.slack, e.reorder, e.widened = e.slack/2, e.reorder/2, now
	}
}

func (e *estimate) tolerant() bool { return e.slack > 0 || e.reorder > 0 }

// seen is what the channel's acknowledgements have been seen to take; 0 if there
// were none.
func (e *estimate) seen() units.Duration { return e.srtt + 2*e.rttvar }
