// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// An rttProbe is a probe of the least round trip (the draft's ProbeRTT): half of the product is in flight until the queue has gone, or
// it is plain that others fill it.
type rttProbe struct {
	endedAt             units.Instant  // of the last one; 0: there was none
	leastWait, mostWait units.Duration // of packets in the rounds since
	detour              units.Duration // the least round trip of the last one, if the way may have been longer in it; 0: it wasn't
	gone                int            // in a row that found the queue gone, though others compete

	begunAt  units.Instant  // of this one
	inflight units.Bytes    // what was in flight then
	wait     units.Duration // how long packets waited then
	least    units.Duration // round trip since; 0: none was measured
}

// unseen is when a least round trip was seen that is only known from elsewhere: the first one measured takes its place.
const unseen units.Instant = -1

const (
	// minRTTAge is after how long without a sight of the least round trip the queue is
	// drained, and maxRTTAge after how long what is seen then is believed. All flows see the
	// queue empty at the same moment, so that the next time they drain it together.
	minRTTAge = 2 * units.Second
	maxRTTAge = 10 * units.Second
	// pressedTime and pressedRounds are how long packets may wait for more than twice the
	// target before others are thought to fill the queue.
	pressedTime   = 100 * units.Millisecond
	pressedRounds = 30
	// probeTime, probeWaits times what packets waited, and probeRounds are how long the queue may take to go, whichever is longest.
	probeTime   = 60 * units.Millisecond
	probeWaits  = 4
	probeRounds = 3
	// grainPackets of other flows are what no flow can go without.
	grainPackets = 12
	// detourJitter-th of a round trip is how much those of a way without a queue differ.
	detourJitter = 16
	// detourSway-th of what is longer is how much it may move between two probes. CUBIC's queue moves more.
	detourSway = 2
)

// wantsProbe reports whether the least round trip hasn't been seen for long, or packets wait for
// longer than flows of this kind let them.
func (b *bbr) wantsProbe(now units.Instant) bool {
	age := b.probeAge()
	switch {
	case b.probe.endedAt == 0:
		age /= 4 // what startup has seen may have been others' queue
	case b.rivalry == competing && b.probe.gone == 0:
		age = b.competingAge()
	case b.rivalry == suspected || b.probe.gone > 0 || b.probe.detour > 0: // one probe more decides
		age /= 2
	}
	pressed := b.rivalry != competing && now.Sub(b.calmAt) > max(pressedTime, pressedRounds*b.minRTT) && now.Sub(b.probe.endedAt) > minRTTAge/4
	return pressed || now.Sub(max(b.minRTTAt, b.probe.endedAt)) > age
}

// afterPause has the age of the least round trip not count a time in which nothing was heard, be it that there was nothing to send or that
// the path carried nothing: who has just begun again would hold back half of the product. So does Linux's BBR (idle_restart).
func (b *bbr) afterPause(now units.Instant) {
	pause := now.Sub(b.heardAt)
	if b.heardAt == 0 || pause < minRTTAge/4 {
		return
	}
	if b.minRTTAt != unseen {
		b.minRTTAt = b.minRTTAt.Add(pause)
	}
	if b.probe.endedAt != 0 {
		b.probe.endedAt = b.probe.endedAt.Add(pause)
	}
}

// probeAge is how long after a sight of the least round trip the queue is drained.
func (b *bbr) probeAge() units.Duration { return max(minRTTAge, (downRounds+downRounds/2)*b.srtt) }

// beginProbeRTT drains the queue, because others have begun to if joined.
func (b *bbr) beginProbeRTT(now units.Instant, joined bool) {
	b.probe.least, b.probe.begunAt, b.doublings, b.common.joined = 0, now, 0, joined
	if b.wait == 0 { // no round since was steady enough to say
		b.wait = b.waited(&b.round)
	}
	b.probe.inflight, b.probe.wait, b.wait = b.inflight, b.wait, 0
	b.round.own = max(b.round.own, reduced)
	b.enter(probeRTT)
}

// joins reports whether a round trip says that others are draining the queue: together they see
// it empty.
func (b *bbr) joins(now units.Instant, rtt units.Duration) bool {
	if b.phase != cruise && b.phase != up || b.rounds < 2 || rtt <= 0 || b.wait <= b.target()/2 {
		return false
	}
	queue := rtt - b.base()
	if b.rivalry == competing {
		return b.joinsRivals(now, queue)
	}
	return queue < b.wait/3 && now.Sub(b.probe.endedAt) > minRTTAge/4
}

// grain is how long a few packets of other flows take, which no flow can go without. A flow that others have left little knows
// the path's rate too low, and would take their queue for a few packets: there is a bound.
func (b *bbr) grain() units.Duration {
	return min(b.peak.Time(grainPackets*b.path.MTU), max(b.minRTT/4, units.Millisecond))
}

// unmoved reports whether packets waited as long in the probe as before it, within a sixteenth: holding back made no queue shorter.
func (b *bbr) unmoved() bool { return b.probe.wait-(b.probe.least-b.base()) < b.probe.wait/16 }

// telling reports whether this flow held back so much in the probe that a queue would have become shorter by more than unmoved overlooks: who
// has little of the path moves no queue.
func (b *bbr) telling() bool { return b.peak.Time(b.probe.inflight/2) > b.probe.wait/8 }

// longer reports whether a probe that didn't see the least round trip, and the one before it, say that the way has
// become longer: the packets took as long as before, though only half of them were in flight, and all took equally long.
// The queue that others fill becomes shorter by what this flow holds back, and moves. Should it be one all the same,
// the least round trip is right again when the queue is next seen shorter.
func (b *bbr) longer() bool {
	more := b.probe.least - b.base()
	steady := b.round.least > 0 && b.round.most-b.round.least < max(b.minRTT, more)/detourJitter
	alike := more > b.minRTT/16 && b.unmoved() && b.telling() && steady
	again := max(b.probe.least-b.probe.detour, b.probe.detour-b.probe.least) < b.probe.least/detourJitter && b.probe.mostWait-b.probe.leastWait < more/detourSway
	switch {
	case !alike:
		b.probe.detour = 0
	case again:
		return true
	default:
		b.probe.detour = b.probe.least
	}
	return false
}

// endProbeRTT says whether the queue has gone. If it hasn't, others fill it, or the way has become longer.
func (b *bbr) endProbeRTT(now units.Instant, gone bool) {
	b.probe.endedAt, b.calmAt = now, now
	b.judgeDrain(now)
	switch {
	case !gone && b.longer():
		b.minRTT, b.minRTTAt, b.probe.detour, b.spread = b.probe.least, now, 0, 0
		b.yield()
	case gone || b.probe.least <= b.base()+min(b.minRTT/16+b.grain(), max(b.probe.wait/2, b.grain())):
		if b.probe.gone++; b.rivalry != competing || b.probe.gone >= quietProbes && b.bw() > b.pathRate()/2 {
			b.yield()
		}
	case now.Sub(b.minRTTAt) > maxRTTAge && b.unmoved() && b.telling() && b.rivalry != competing:
		b.minRTT, b.minRTTAt, b.spread = b.probe.least, now, 0 // not a queue: the way has become longer
		b.yield()
	default:
		b.probe.gone = 0
		if b.rivalry == alone {
			b.rivalry = suspected
		} else {
			b.compete()
		}
	}
	b.probe.leastWait, b.probe.mostWait = 0, 0
	b.enter(refill)
}
