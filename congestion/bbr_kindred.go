// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A commonDrain is how flows of this kind that take each other for competitors find out. All of them keep the queue full, and a probe of one alone
// doesn't empty it. So a flow that competes probes together with others: as soon as the queue becomes shorter without its doing, if its own
// probe is due soon. As each of them waits for the others' for half of the time between its own two, all come to probe together within a few probes.
//
// A queue that goes though this flow kept back too little for that was drained by others. CUBIC, which holds seven tenths of its window
// after a loss, does so where the buffer is short, and BBR each ten seconds. The second time within commonTime the competition ends, on trial:
// once packets again wait for longer than they do behind flows of this kind, it goes on as it was.
type commonDrain struct {
	seenAt  units.Instant  // when others were last seen to drain the queue; 0: never
	trialAt units.Instant  // since when the competition has ended on trial; 0: there is no trial, or it is over
	most    units.Duration // how long packets may wait on trial
	fewAt   units.Instant  // when they last waited no longer than that
	joined  bool           // this flow's probe began because others' had
}

const (
	// kindredFlows are how many flows of this kind may share a path without being taken for competitors.
	kindredFlows = 8
	// joinShare-th of the queue has to go for a flow that competes to join.
	joinShare = 8
	// drainShare-th of the queue is what may be left of one that was drained.
	drainShare = 4
	commonTime = 8 * units.Second
	// trialTime is how long a trial takes, and trialRounds, but trialLapse at least, how long packets have to wait for too long to end it.
	trialTime   = 5 * units.Second
	trialRounds = 6
	trialLapse  = 50 * units.Millisecond
)

// joinsRivals reports whether a queue of this length says that others drain it, and this flow's own probe is due soon.
func (b *bbr) joinsRivals(now units.Instant, queue units.Duration) bool {
	return queue < b.wait/joinShare*(joinShare-1) && now.Sub(b.probe.endedAt) > b.competingAge()/2
}

// competingAge is how long after a probe that found the queue filled the next one begins.
func (b *bbr) competingAge() units.Duration { return b.probeAge() / 2 * 3 }

// watchDrain looks for others' drains while this flow doesn't hold back.
func (b *bbr) watchDrain(now units.Instant, rtt units.Duration) {
	if b.rivalry == competing && b.phase != probeRTT && rtt > 0 && rtt < b.base()+b.wait/drainShare {
		b.othersDrained(now, b.wait)
	}
}

// judgeDrain asks of a probe that ends whether others drained the queue, too: because they began, or because what was held back takes
// less than half as long as packets waited.
func (b *bbr) judgeDrain(now units.Instant) {
	if b.probe.least == 0 || b.probe.least-b.base() >= b.probe.wait/drainShare {
		return
	}
	held := b.pathRate().Time(max(b.probe.inflight-b.inflight, 0))
	if b.common.joined || b.rivalry == competing && held < b.probe.wait/2 {
		b.othersDrained(now, b.probe.wait)
	}
}

// othersDrained notes that others drained a queue of this length.
func (b *bbr) othersDrained(now units.Instant, queue units.Duration) {
	c := &b.common
	since := now.Sub(c.seenAt)
	if c.seenAt != 0 && since < b.probeAge()/4 {
		return // the same one
	}
	again := c.seenAt != 0 && since < commonTime
	c.seenAt = now
	if !again || b.rivalry != competing {
		return
	}
	b.yield()
	c.trialAt, c.fewAt = now, now
	c.most = min(max(b.kindredWait()/2*3, queue/2), queue/8*7)
}

// judgeTrial goes back to the competition if the queue that ended it is there again.
func (b *bbr) judgeTrial(queue units.Duration) {
	c := &b.common
	switch {
	case c.trialAt == 0:
	case b.now.Sub(c.trialAt) > trialTime:
		c.trialAt = 0
	case queue <= c.most:
		c.fewAt = b.now
	case b.now.Sub(c.fewAt) > max(trialLapse, trialRounds*b.rtt()):
		b.rivalry, c.trialAt = competing, 0 // with the window of before
	}
}

// kindredWait is how long packets wait behind kindredFlows equal flows of this kind and way, and a quarter more.
func (b *bbr) kindredWait() units.Duration {
	x := b.peak / kindredFlows
	if x <= 0 {
		return 0
	}
	return x.Time(max(queueOf(x, b.nominal()), b.path.MTU)) / 4 * 5
}

// kindred is how long packets may wait without others than flows of this kind: kindredWait, but no longer than two round trips and the buffer hold.
func (b *bbr) kindred() units.Duration {
	wait := min(b.kindredWait(), 2*b.minRTT)
	if b.depth > 0 {
		wait = min(wait, b.depth)
	}
	return wait
}
