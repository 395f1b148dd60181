// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// initialRTT is assumed before anything was measured: QUIC's value (RFC
	// 9002, 6.2.2), which gives a first timeout of a second.
	initialRTT = 333 * units.Millisecond
	// minInterval keeps a connection without an interval from answering
	// each poll with a frame.
	minInterval = 10 * units.Microsecond
	// maxTimeout bounds back-off, and what deviations make of a timer, not a timeout of three round trips.
	maxTimeout = units.Second
	// maxPerRTT bounds how many samples a round trip is thought to bring.
	maxPerRTT = 32
)

// RTT is the round trip that a core reckons with: the measured one, or the initial assumption.
func RTT(env *scheme.Env) units.Duration {
	if env.RTT <= 0 {
		return initialRTT
	}
	return env.RTT
}

// Interval is the time between two frames of a receiver while data arrives.
func Interval(env *scheme.Env) units.Duration { return max(env.AckInterval, minInterval) }

// Estimates is what transfers have taught about each channel, for the transfers after
// them. It is for one Conn; the zero value knows nothing.
type Estimates struct {
	channels []*estimate
	waits    waitTest
}

// of returns the estimates of n channels.
func (e *Estimates) of(n int) []*estimate {
	for len(e.channels) < n {
		e.channels = append(e.channels, new(estimate))
	}
	return e.channels[:n]
}

// An estimate is what is known of one channel, across transfers.
type estimate struct {
	// srtt and rttvar are smoothed as in RFC 6298 from the marks: they
	// include the wait for the next frame. minRTT is the smallest sample.
	// 0 means not measured. The first deviation is a sixteenth of the sample,
	// not half: frames are regular, and half would make the first timers of
	// every connection three round trips.
	srtt, rttvar, minRTT units.Duration
	// latestRTT is the latest sample.
	latestRTT units.Duration
	// floor is the least sample that was seen lately.
	floor floor
	// reordered is what has been seen of reordering inside the channel.
	reordered reordering
}

// sample adds a round-trip time, of which there is one every so often. The
// deviation rises as in RFC 6298, but falls as if there were one sample a round
// trip (RFC 7323, appendix G): with a frame every 32nd of it, what a host did that
// was late once would be forgotten before it is late again, and each time the
// timers would repeat what had arrived. It is bounded, because a host that once answered seconds late is no
// reason to wait as long for hundreds of answers.
func (e *estimate) sample(rtt, every units.Duration) {
	e.latestRTT = rtt
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
	e.rttvar = min(e.rttvar, max(e.srtt/2, maxTimeout/4))
}

// seenRTT is what the channel's acknowledgements have been seen to take; 0 if there
// were none.
func (e *estimate) seenRTT() units.Duration { return e.srtt + 2*e.rttvar }

// reorderWindow is how long to wait for a packet that others have overtaken: a quarter
// more than was seen, as the most is yet to come, and a round trip at most (RFC 8985,
// 6.2, step 4).
func (e *estimate) reorderWindow() units.Duration {
	most := max(e.reordered.most, e.reordered.mostBefore)
	return min(most+most/4, e.srtt)
}

// lossDelay is how long after it was sent a packet may still be reported missing without
// being lost, when later packets of its channel have arrived: a round trip and the
// reorder window (RFC 8985, 6.2, step 5).
func (e *estimate) lossDelay() units.Duration {
	if w := e.reorderWindow(); w > 0 {
		return max(e.latestRTT, e.minRTT) + w
	}
	return e.minRTT
}

// sampleReordering learns that a packet sent at an instant arrived behind later ones of its
// channel, and was reported now, by frames with a pause of every between them.
func (e *estimate) sampleReordering(now, sent units.Instant, every units.Duration) {
	if e.srtt > 0 {
		e.reordered.sample(now, max(now.Sub(sent)-max(e.latestRTT, e.minRTT), 0)+every, e.srtt)
	}
}

const (
	// What was seen of reordering is kept for periodSamples packets that came late,
	// but at least for minPeriod and at most for maxPeriod round trips.
	periodSamples = 256
	minPeriod     = 16
	maxPeriod     = 1024
)

// A reordering is how long after later packets of its channel a packet may still come:
// the reorder window of RFC 8985, 6.2, but measured. It is the most that was seen in this
// period or the one before.
type reordering struct {
	most, mostBefore units.Duration
	samples          int
	begun            units.Instant // when this period began
}

// sample learns how late a packet was.
func (r *reordering) sample(now units.Instant, late, srtt units.Duration) {
	past := now.Sub(r.begun)
	switch {
	case r.most == 0 && r.mostBefore == 0:
		r.begun = now
	case r.samples >= periodSamples && past > minPeriod*srtt || past > maxPeriod*srtt:
		r.nextPeriod(now)
	}
	r.samples++
	r.most = max(r.most, late)
}

func (r *reordering) nextPeriod(now units.Instant) {
	r.mostBefore, r.most, r.samples, r.begun = r.most, 0, 0, now
}

// decay forgets reordering that is long over.
func (r *reordering) decay(now units.Instant, srtt units.Duration) {
	if (r.most > 0 || r.mostBefore > 0) && now.Sub(r.begun) > maxPeriod*srtt {
		r.nextPeriod(now)
	}
}
