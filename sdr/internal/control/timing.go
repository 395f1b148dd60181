// SPDX-License-Identifier: Apache-2.0

package control

import "github.com/sdr-rdma/go-sdr/units"

// timing estimates the round trip (RFC 6298's smoothing) and spaces repetitions.
type timing struct {
	srtt, rttvar units.Duration
	least        leastRTT
	// hold is how long what nobody waits for is held back, here and at the peer.
	hold units.Duration
	// contention is by how much others wait longer for each more datagram.
	contention units.Duration
	// asked is when the first ping was sent, Never before.
	asked units.Instant
}

// A path may become longer while a connection lasts, so the least round trip is that of two spans, each of which lasts so long and has so many
// samples. While work is pending, pings go four times a second: what is rare, as that a queue is empty or that a host answers at once, has had its
// chance by then. A time without work makes nothing old.
const (
	leastSpan    = 30 * units.Second
	leastSamples = 64
)

// A leastRTT is the least round trip of the last samples.
type leastRTT struct {
	before, current units.Duration // of the last span, 0: there was none, and of this one
	begun           units.Instant
	n               int // samples of this span
}

func (l *leastRTT) add(now units.Instant, r units.Duration) {
	if l.n >= leastSamples && now.Sub(l.begun) >= leastSpan {
		*l = leastRTT{before: l.current}
	}
	if l.n == 0 {
		l.current, l.begun = r, now
	}
	l.current = min(l.current, r)
	l.n++
}

// get is 0 before the first sample.
func (l *leastRTT) get() units.Duration {
	if l.before > 0 {
		return min(l.before, l.current)
	}
	return l.current
}

func (t *timing) sample(now units.Instant, r units.Duration) {
	r = max(r, 1)
	t.least.add(now, r)
	if t.srtt == 0 {
		t.srtt, t.rttvar = r, r/2
		return
	}
	d := t.srtt - r
	if d < 0 {
		d = -d
	}
	t.rttvar += (d - t.rttvar) / 4
	t.srtt += (r - t.srtt) / 8
}

// rtt is the smoothed round trip or the initial assumption.
func (t *timing) rtt() units.Duration {
	if t.srtt == 0 {
		return InitialRTT
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

// sparesCopies reports whether copies, which save a round trip if the frame that they follow is lost, are worth less than others' time: as if that
// happened to one frame in a hundred.
func (t *timing) sparesCopies() bool { return t.contention > t.rtt()/100 }

// repeatAfter is the first pause before a repetition: an answer takes a round
// trip, and the peer may answer late by its own scheduling.
func (t *timing) repeatAfter() units.Duration {
	return t.rtt() + max(4*t.rttvar, t.rtt()/8, units.Millisecond)
}

// trainSpacing is the pause before a frame of a train with left more to go: RTT/32, at least 100 µs, and longer where the link may be slow. Where it
// is the peer that isn't there yet, or the path, the ping that is away says nothing of the link, and no pause is longer than other repetitions'.
func (t *timing) trainSpacing(now units.Instant, left int16) units.Duration {
	d := max(t.rtt()/perRTT, minTrainSpacing)
	if t.srtt == 0 && t.asked <= now && left < unmeasuredTrain-denseUnanswered {
		d = max(d, min(now.Sub(t.asked)/perUnanswered, MaxBackoff))
	}
	return d
}

// reschedule says when a frame that has just been sent is due again: its copies, then
// after a round trip, and after ever longer pauses, another frame or a train of them,
// the first of which is long. Where packets are lost in bursts and nothing else comes
// this way, a burst goes on from frame to frame, and single frames at doubling
// distances would take seconds to outlast it.
func (t *timing) reschedule(now units.Instant, it *item) {
	if t.sparesCopies() {
		it.copies = 0
	}
	switch {
	case it.copies > 0:
		it.copies--
		it.due = now.Add(t.copySpacing())
		return
	case it.train > 0:
		it.train--
		it.due = now.Add(t.trainSpacing(now, it.train))
		return
	case it.backoff == 0:
		it.backoff = t.repeatAfter()
		it.train = firstTrain
		if t.srtt == 0 {
			it.train = unmeasuredTrain
		}
	default:
		it.backoff = min(2*it.backoff, MaxBackoff)
		it.train = trainLength
	}
	if !it.urgent() || it.backoff == MaxBackoff {
		it.train = 0
	}
	it.due = now.Add(it.backoff)
}
