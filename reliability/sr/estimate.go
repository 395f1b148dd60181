// SPDX-License-Identifier: Apache-2.0

package sr

import "github.com/sdr-rdma/go-sdr/units"

const (
	// initialRTT is assumed before anything was measured: QUIC's value (RFC
	// 9002, 6.2.2), which gives a first timeout of a second.
	initialRTT = 333 * units.Millisecond
	// maxTimeout bounds back-off, not a timeout that is longer without it.
	maxTimeout = units.Second
	// A reordering window is kept for lateSamples packets that came late, but
	// at least minMemory and at most maxMemory round trips.
	lateSamples = 256
	minMemory   = 16
	maxMemory   = 1024
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
	// rtt is the latest sample.
	rtt units.Duration
	// late is what has been seen of reordering inside the channel.
	late lateness
}

// sample takes a round-trip time, of which there is one every so often. The
// deviation rises as in RFC 6298, but falls as if there were one sample a round
// trip (RFC 7323, appendix G): with a frame every 32nd of it, what a host did that
// was late once would be forgotten before it is late again, and each time the
// timers would repeat what had arrived.
func (e *estimate) sample(rtt, every units.Duration) {
	e.rtt = rtt
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

// A lateness is how long after later packets of its channel a packet may still come: the
// reordering window of RFC 8985, 6.2, but measured. It is the most that was seen in this
// period or the one before.
type lateness struct {
	now, before units.Duration
	samples     int
	since       units.Instant // when this period began
}

// sample takes how late a packet was.
func (l *lateness) sample(now units.Instant, by, srtt units.Duration) {
	past := now.Sub(l.since)
	switch {
	case l.now == 0 && l.before == 0:
		l.since = now
	case l.samples >= lateSamples && past > minMemory*srtt || past > maxMemory*srtt:
		l.before, l.now, l.samples, l.since = l.now, 0, 0, now
	}
	l.samples++
	l.now = max(l.now, by)
}

// decay forgets reordering that is long over.
func (l *lateness) decay(now units.Instant, srtt units.Duration) {
	if (l.now > 0 || l.before > 0) && now.Sub(l.since) > maxMemory*srtt {
		l.before, l.now, l.samples, l.since = l.now, 0, 0, now
	}
}

// window is how long to wait for a packet that others have overtaken: a quarter more than
// was seen, as the most is yet to come, and a round trip at most (RFC 8985, 6.2, step 4).
func (e *estimate) window() units.Duration {
	most := max(e.late.now, e.late.before)
	return min(most+most/4, e.srtt)
}

// patience is how long after it was sent a packet may still be reported missing without
// being lost, when later packets of its channel have arrived.
func (e *estimate) patience() units.Duration {
	if w := e.window(); w > 0 {
		return max(e.rtt, e.minRTT) + w
	}
	return e.minRTT
}

// cameLate notes that a packet sent at an instant arrived behind later ones of its channel,
// and was reported now, by frames with a pause of every between them.
func (e *estimate) cameLate(now, sent units.Instant, every units.Duration) {
	if e.srtt > 0 {
		e.late.sample(now, max(now.Sub(sent)-max(e.rtt, e.minRTT), 0)+every, e.srtt)
	}
}

// seen is what the channel's acknowledgements have been seen to take; 0 if there
// were none.
func (e *estimate) seen() units.Duration { return e.srtt + 2*e.rttvar }
