// SPDX-License-Identifier: Apache-2.0

package control

import "github.com/sdr-rdma/go-sdr/units"

// timing estimates the round trip (RFC 6298's smoothing) and spaces repetitions.
type timing struct {
	srtt, rttvar, min units.Duration
	// hold is how long what nobody waits for is held back, here and at the peer.
	hold units.Duration
}

func (t *timing) sample(r units.Duration) {
	r = max(r, 1)
	if t.srtt == 0 {
		t.srtt, t.rttvar, t.min = r, r/2, r
		return
	}
	d := t.srtt - r
	if d < 0 {
		d = -d
	}
	t.rttvar += (d - t.rttvar) / 4
	t.srtt += (r - t.srtt) / 8
	t.min = min(t.min, r)
}

// rtt is the smoothed round trip or the initial assumption.
func (t *timing) rtt() units.Duration {
	if t.srtt == 0 {
		return initialRTT
	}
	return t.srtt
}

// copySpacing is RTT/64, at least 20 µs. Where an acknowledgement can be back within maxCopySpacing, held back as it
// may be, it comes before the copies.
func (t *timing) copySpacing() units.Duration {
	least := minCopySpacing
	if t.hold > 0 {
		least = min(t.rtt()+4*t.rttvar+t.hold, maxCopySpacing)
	}
	return max(t.rtt()/64, least)
}

// repeatAfter is the first pause before a repetition: an answer takes a round
// trip, and the peer may answer late by its own scheduling.
func (t *timing) repeatAfter() units.Duration {
	return t.rtt() + max(4*t.rttvar, t.rtt()/8, units.Millisecond)
}

// trainSpacing is the pause between the frames of a train, RTT/32, at least 100 µs.
func (t *timing) trainSpacing() units.Duration {
	return max(t.rtt()/perRTT, minTrainSpacing)
}

// reschedule says when a frame that has just been sent is due again: its copies, then
// after a round trip, and after ever longer pauses, another frame or a train of them,
// the first of which is long. Where packets are lost in bursts and nothing else comes
// this way, a burst goes on from frame to frame, and single frames at doubling
// distances would take seconds to outlast it.
func (t *timing) reschedule(now units.Instant, it *item) {
	switch {
	case it.copies > 0:
		it.copies--
		it.due = now.Add(t.copySpacing())
		return
	case it.train > 0:
		it.train--
		it.due = now.Add(t.trainSpacing())
		return
	case it.backoff == 0:
		it.backoff = t.repeatAfter()
		it.train = firstTrain
	default:
		it.backoff = min(2*it.backoff, MaxBackoff)
		it.train = trainLength
	}
	if !it.urgent() || it.backoff == MaxBackoff {
		it.train = 0
	}
	it.due = now.Add(it.backoff)
}
