// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A bbrRound is a round trip: it ends when what was sent before it is accounted for.
type bbrRound struct {
	begun             units.Instant
	goal              units.Bytes // of bbr.sent
	sent, acked, lost units.Bytes
	marked, trimmed   units.Bytes
	took, gap         units.Duration // gap is the longest time without feedback
	least, most       units.Duration
	mean              meanRTT
	acks              int
	held              bool // the limits held the sender back
	own               ownQueue
	void              bool // it tells nothing of the path: a blackout, or nothing was sent
	lumpy             bool // its feedback was held up
}

// An ownQueue is what a round did to this flow's queue.
type ownQueue uint8

const (
	// kept: the limits were what the model asks for.
	kept ownQueue = iota
	// reduced: they were lowered on purpose, to drain it, perhaps only in the end.
	reduced
	// drained: they were lower from the beginning, so that nothing of this flow waits.
	drained
)

const (
	// leastRound keeps rounds of short paths from being decided by single packets.
	leastRound = units.Millisecond
	// downRounds pass from one drain to the next.
	downRounds = 10
	// A round of lumpyAcks pieces of feedback in which none came for a lumpyShare-th of it says
	// more of hosts than of the path.
	lumpyAcks  = 8
	lumpyShare = 4
	// heldShare is how much of what the limits allow a sender with enough to send uses, in hundredths.
	heldShare = 80
	// emptyRounds without a queue may be others' drains; in the next there is room.
	emptyRounds = 1
	// pauseFade-th is taken off the longest pause each round.
	pauseFade = 16
	// peakFade-th is taken off bbr.peak each second.
	peakFade = 64
	// bwRounds is over how many rounds the delivery rate is the largest.
	bwRounds = 2
)

func (b *bbr) beginRound(now units.Instant) {
	b.round = bbrRound{begun: now, goal: b.sent + 1}
	switch b.phase {
	case drain:
		b.round.own = reduced
	case down, probeRTT:
		b.round.own = drained
	}
	if b.round.begun == 0 {
		b.round.begun = 1
	}
}

// endRound judges a round trip and begins the next.
func (b *bbr) endRound(now units.Instant) {
	r := &b.round
	r.took = max(now.Sub(r.begun), 1)
	// The limits held the sender back if it sent most of what they allowed, all the time.
	allowed := min(b.pace, units.RateOf(b.limit, max(b.srtt, 1))).Bytes(r.took)
	r.held = r.sent*100 >= allowed*heldShare
	tells := !r.void && !b.before.void
	keeps := r.own == kept && b.before.own == kept
	// Feedback that regularly comes often and then not for a while was held up by a host.
	r.lumpy = r.acks >= lumpyAcks && r.gap > r.took/lumpyShare
	if tells {
		b.sampleRate()
		b.judgeLosses(now)
	}
	if tells && keeps { // what this flow withheld makes pauses, too
		b.pause = max(b.pause/pauseFade*(pauseFade-1), r.gap)
	}
	b.judgeMarks()
	b.judgeTrims()
	if now.Sub(b.faded) > units.Second {
		b.peak, b.faded = b.peak-b.peak/peakFade, now
	}
	b.peak = max(b.peak, b.bw())
	b.rounds++
	queue := b.waited(r)
	steady := tells && !r.lumpy && r.least > 0 && keeps
	if b.rivalry == competing && r.least > 0 && keeps {
		b.relax(queue)
	}
	b.next(now, queue, steady)
	b.before = b.round
	b.beginRound(now)
}

// sampleRate takes what the round delivered. It was sent in the round before, so it can't have been
// delivered faster than that took. A round whose sender had less to send than it was allowed, or was
// allowed less on purpose, is no proof that the path has become slower, nor is one that ended before its packets can have come back, as
// the last of a transfer do with what they give up.
func (b *bbr) sampleRate() {
	n := b.round.acked + min(b.round.lost, b.losses.random(b.round.acked, b.path.MTU))
	x := min(units.RateOf(n, max(b.round.took, b.before.took)), maxBBR)
	if x <= 0 {
		return
	}
	if !b.before.held || b.before.own != kept || b.round.lumpy || b.before.lumpy || b.round.took < b.minRTT/8*7 {
		if x > b.bw() {
			b.rates[0] = x
		}
		return
	}
	copy(b.rates[1:], b.rates[:])
	b.rates[0] = max(x, b.rates[1]/2) // one round alone proves no more than that
}

// next moves between the phases at the end of a round.
func (b *bbr) next(now units.Instant, queue units.Duration, steady bool) {
	switch b.phase {
	case startup:
		b.startupRound(now)
		return
	case drain:
		if queue <= b.minRTT/16 || b.rounds >= 2 || b.inflight <= b.bdp() {
			b.enter(refill)
		}
		return
	case probeRTT:
		if b.rounds >= probeRounds && now.Sub(b.probe.begunAt) >= max(probeTime, probeWaits*b.probe.wait) {
			b.endProbeRTT(now, false)
		}
		return
	case probeWait:
		b.probeWaitRound(now)
		return
	case down:
		b.enter(refill)
		b.batch[1], b.batch[0] = max(b.batch[0], b.batch[1]/8*7), 0
		return
	case refill:
		b.narrow(b.round.held)
		b.enter(cruise)
		return
	}
	if b.round.void {
		b.calmAt = now // nobody knows for how long packets wait
		b.enter(refill)
		return
	}
	if steady {
		if b.probe.mostWait == 0 {
			b.probe.leastWait, b.probe.mostWait = queue, queue
		}
		b.wait, b.probe.leastWait, b.probe.mostWait = queue, min(b.probe.leastWait, queue), max(b.probe.mostWait, queue)
		b.judgeTrial(queue)
		b.watchQueue(queue)
		b.waitProbe.hear(b.meanWait(&b.round))
		b.share(b.sharedWait())
		if b.round.held {
			b.narrow(false)
		}
	} else {
		b.fair = 0
	}
	switch {
	case (b.round.held || b.before.held) && b.wantsProbe(now): // who sends less than it may has no queue to drain
		b.beginProbeRTT(now, false)
	case b.wantsProbeWait(now):
		b.beginProbeWait()
	case b.rounds >= downRounds && b.doublings == 0:
		b.enter(down)
	}
}

func (b *bbr) enter(p phase) { b.phase, b.rounds = p, 0 }

// watchQueue looks at the queue of a round in which nothing was held back.
func (b *bbr) watchQueue(queue units.Duration) {
	if b.rivalry != competing {
		b.adjust(queue)
	}
	q := b.bw().Bytes(queue)
	if q < b.queue()/4 && queue < b.target()/4+10*units.Microsecond && b.round.held {
		b.empty++
	} else {
		b.empty = 0
	}
	if b.empty > emptyRounds {
		// What was allowed more a round ago is answered in the next.
		if b.grew = !b.grew; b.grew {
			b.doublings = min(b.doublings+1, 6)
		}
		b.phase = up
	} else {
		b.grew = false
		b.doublings = 0
		b.phase = cruise
	}
}
