// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A waitProbe finds out whether it is a queue's doing that packets wait, where that makes this flow send less than it once could: a queue
// becomes longer when more is sent. So twice as much more goes in each round, until it is what the path was seen to carry, or packets wait for
// longer. If they never do, it is the way that makes them (spread).
//
// Flows of this kind with shorter round trips would make room meanwhile, and their queue stay as it was. But it moves from round to round, and no
// more than it can from one packet to the next. So it is asked where packets wait equally long for many rounds, as on a longer way, or where
// those that follow each other differ by more, as where delays vary.
type waitProbe struct {
	lately units.Duration // how long packets waited, as the mean of some rounds
	sway   units.Duration // by how much a round differs from that
	jitter jitter

	before  units.Duration // lately, when more began to be sent
	more    units.Bytes    // than the model's window
	endedAt units.Instant  // of the last one; 0: there was none
	rest    units.Duration // until the next, if that is more than leastRest
}

const (
	// waitSmooth and swaySmooth are over how many rounds lately and sway are the means.
	waitSmooth = 4
	swaySmooth = 8
	// waitFall is how much of the largest rate of late, in hundredths, a flow has at most where it asks.
	waitFall = 90
	// waitSway-th of what packets wait is the most that rounds differ by where the way is longer, waitJitter-th the least that packets do where delays
	// vary.
	waitSway   = 16
	waitJitter = 4
	// waitRounds pass before it, so that lately is of one phase.
	waitRounds = 4
	// waitMore times what packets wait is how long what goes more at first takes at the largest rate of late.
	waitMore = 2
	// leastRest, and downRounds round trips, pass from one to the next, and twice as long after each that found a queue, up to mostRest.
	leastRest = 250 * units.Millisecond
	mostRest  = 10 * units.Second
)

// hear takes how long packets waited in a round in which nothing was held back.
func (w *waitProbe) hear(wait units.Duration) {
	w.sway += (max(wait-w.lately, w.lately-wait) - w.sway) / swaySmooth
	w.lately += (wait - w.lately) / waitSmooth
}

func (b *bbr) wantsProbeWait(now units.Instant) bool {
	w := &b.waitProbe
	suffers := b.bw() < b.peak/100*waitFall && w.lately > b.peak.Time(b.queueAt(b.peak))/2 && b.round.held && b.before.held
	fits := b.marks.window == 0 && (b.depth == 0 || (waitMore+1)*w.lately < b.depth)
	steady := w.sway < w.lately/waitSway && w.lately < b.minRTT/queueTarget
	varies := w.jitter.mean > w.lately/waitJitter
	return suffers && fits && (steady || varies) && b.rivalry != competing && b.rounds >= waitRounds && now.Sub(w.endedAt) > max(w.rest, b.leastRest())
}

func (b *bbr) leastRest() units.Duration { return max(leastRest, downRounds*b.rtt()) }

func (b *bbr) beginProbeWait() {
	w := &b.waitProbe
	w.before = w.lately
	w.more = b.peak.Bytes(waitMore * w.before)
	b.enter(probeWait)
}

// probeWaitRound ends a round of a probe. What the first tells is of packets that were sent before.
func (b *bbr) probeWaitRound(now units.Instant) {
	w := &b.waitProbe
	wait := b.meanWait(&b.round)
	moved := wait > w.before/2*3+w.jitter.mean || wait+w.jitter.mean < w.before/2
	switch {
	case b.round.void:
	case b.rounds < 2:
		return
	case moved:
		w.rest = min(2*max(w.rest, b.leastRest()), mostRest)
	case b.even()+w.more < b.peak.Bytes(b.base()):
		w.more *= 2
		return
	default:
		b.spread += min(w.before, wait) + w.jitter.mean/2 // a queue of that length is lost in it
		w.rest, w.lately, b.fair = 0, 0, 0
	}
	w.endedAt = now
	b.enter(refill)
}

// A jitter is by how much one round trip differs from the one before (as in RFC 3550, section 6.4.1), smoothed, and beyond what a queue can
// have changed in between: a queueSlope-th of the time that passed.
type jitter struct {
	mean   units.Duration
	latest units.Duration // round trip; 0: none yet
	at     units.Instant
}

const (
	queueSlope   = 4
	jitterSmooth = 64
)

func (j *jitter) add(now units.Instant, rtt units.Duration) {
	if j.latest > 0 {
		d := max(rtt-j.latest, j.latest-rtt) - now.Sub(j.at)/queueSlope
		j.mean += (max(d, 0) - j.mean) / jitterSmooth
	}
	j.latest, j.at = rtt, now
}
