// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

func (b *bbr) beginRound(now units.Instant) {
	b.round = bbrRound{begun: now, goal: b.sent + 1, reduced: b.phase == down || b.phase == probeRTT || b.phase == drain,
		calm: b.phase == down || b.phase == probeRTT}
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
	// Feedback that regularly comes often and then not for a while was held up by a host.
	lumpy := r.acks >= lumpyAcks && r.gap > r.took/lumpyShare
	if tells {
		b.sampleRate(lumpy || b.lumpy)
		b.judgeLosses(now)
	}
	if tells && !r.reduced && !b.before.reduced { // what this flow withheld makes pauses, too
		b.pause = max(b.pause/pauseFade*(pauseFade-1), r.gap)
	}
	b.judgeMarks()
	b.judgeTrims()
	if now.Sub(b.faded) > units.Second {
		b.peak, b.faded = b.peak-b.peak/peakFade, now
	}
	b.peak = max(b.peak, b.bw())
	b.rounds++
	queue := max(r.least-b.minRTT, 0)
	steady := tells && !lumpy && r.least > 0 && !r.reduced && !b.before.reduced
	b.lumpy = lumpy
	if b.competing && r.least > 0 && !r.reduced && !b.before.reduced {
		b.relax(queue)
	}
	b.next(now, queue, steady)
	b.before = b.round
	b.before.reduced = b.before.reduced || b.phase == probeRTT && b.rounds == 0
	b.beginRound(now)
}

// sampleRate takes what the round delivered. It was sent in the round before, so it can't have been
// delivered faster than that took. A round whose sender had less to send than it was allowed, or was
// allowed less on purpose, is no proof that the path has become slower, nor is one that ended before its packets can have come back, as
// the last of a transfer do with what they give up.
func (b *bbr) sampleRate(lumpy bool) {
	n := b.round.acked + min(b.round.lost, b.losses.random(b.round.acked, b.path.MTU))
	x := min(units.RateOf(n, max(b.round.took, b.before.took)), maxBBR)
	if x <= 0 {
		return
	}
	if !b.before.held || b.before.reduced || lumpy || b.round.took < b.minRTT/8*7 {
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
		if b.rounds >= probeRounds && now.Sub(b.begun) >= max(probeTime, probeWaits*b.waited) {
			b.endProbeRTT(now, false)
		}
		return
	case down:
		b.enter(refill)
		b.batch[1], b.batch[0] = max(b.batch[0], b.batch[1]/8*7), 0
		return
	case refill:
		b.enter(cruise)
		return
	}
	if b.round.void {
		b.calmAt = now // nobody knows for how long packets wait
		b.enter(refill)
		return
	}
	if steady {
		if b.high == 0 {
			b.low, b.high = queue, queue
		}
		b.stand, b.low, b.high = queue, min(b.low, queue), max(b.high, queue)
		b.judgeTrial(queue)
		b.watchQueue(queue)
		b.share(max(b.round.mean.value()-b.minRTT, 0))
	} else {
		b.fair = 0
	}
	switch {
	case (b.round.held || b.before.held) && b.wantsProbe(now): // who sends less than it may has no queue to drain
		b.beginProbeRTT(now, false)
	case b.rounds >= downRounds && b.more == 0:
		b.enter(down)
	}
}

func (b *bbr) enter(p phase) { b.phase, b.rounds = p, 0 }

// watchQueue looks at the queue of a round in which nothing was held back.
func (b *bbr) watchQueue(queue units.Duration) {
	if !b.competing {
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
			b.more = min(b.more+1, 6)
		}
		b.phase = up
	} else {
		b.grew = false
		b.more = 0
		b.phase = cruise
	}
}

// wantsProbe reports whether the least round trip hasn't been seen for long, or packets wait for
// longer than flows of this kind let them.
func (b *bbr) wantsProbe(now units.Instant) bool {
	age := b.probeAge()
	switch {
	case b.probed == 0:
		age /= 4 // what startup has seen may have been others' queue
	case b.competing && b.fails > 0:
		age = b.competingAge()
	case b.fails != 0 || b.detour > 0: // one probe more decides
		age /= 2
	}
	pressed := !b.competing && now.Sub(b.calmAt) > max(pressedTime, pressedRounds*b.minRTT) && now.Sub(b.probed) > minRTTAge/4
	return pressed || now.Sub(max(b.seenAt, b.probed)) > age
}

// probeAge is how long after a sight of the least round trip the queue is drained.
func (b *bbr) probeAge() units.Duration { return max(minRTTAge, (downRounds+downRounds/2)*b.srtt) }

// beginProbeRTT drains the queue, because others have begun to if joined.
func (b *bbr) beginProbeRTT(now units.Instant, joined bool) {
	b.probing, b.begun, b.more, b.common.joined = 0, now, 0, joined
	if b.stand == 0 { // no round since was steady enough to say
		b.stand = max(b.round.least-b.minRTT, 0)
	}
	b.drained, b.waited, b.stand = b.inflight, b.stand, 0
	b.round.reduced = true
	b.enter(probeRTT)
}

// joins reports whether a round trip says that others are draining the queue: together they see
// it empty.
func (b *bbr) joins(now units.Instant, rtt units.Duration) bool {
	if b.phase != cruise && b.phase != up || b.rounds < 2 || rtt <= 0 || b.stand <= b.target()/2 {
		return false
	}
	queue := rtt - b.minRTT
	if b.competing {
		return b.joinsRivals(now, queue)
	}
	return queue < b.stand/3 && now.Sub(b.probed) > minRTTAge/4
}

// grain is how long a few packets of other flows take, which no flow can go without. A flow that others have left little knows
// the path's rate too low, and would take their queue for a few packets: there is a bound.
func (b *bbr) grain() units.Duration {
	return min(b.peak.Time(grainPackets*b.path.MTU), max(b.minRTT/4, units.Millisecond))
}

// unmoved reports whether packets waited as long in the probe as before it, within a sixteenth: holding back made no queue shorter.
func (b *bbr) unmoved() bool { return b.waited-(b.probing-b.minRTT) < b.waited/16 }

// telling reports whether this flow held back so much in the probe that a queue would have become shorter by more than unmoved overlooks: who
// has little of the path moves no queue.
func (b *bbr) telling() bool { return b.peak.Time(b.drained/2) > b.waited/8 }

// longer reports whether a probe that didn't see the least round trip, and the one before it, say that the way has
// become longer: the packets took as long as before, though only half of them were in flight, and all took equally long.
// The queue that others fill becomes shorter by what this flow holds back, and moves. Should it be one all the same,
// the least round trip is right again when the queue is next seen shorter.
func (b *bbr) longer() bool {
	more := b.probing - b.minRTT
	steady := b.round.least > 0 && b.round.most-b.round.least < max(b.minRTT, more)/detourJitter
	alike := more > b.minRTT/8 && b.unmoved() && b.telling() && steady
	again := max(b.probing-b.detour, b.detour-b.probing) < b.probing/detourJitter && b.high-b.low < more/detourSway
	switch {
	case !alike:
		b.detour = 0
	case again:
		return true
	default:
		b.detour = b.probing
	}
	return false
}

// endProbeRTT says whether the queue has gone. If it hasn't, others fill it, or the way has become longer.
func (b *bbr) endProbeRTT(now units.Instant, gone bool) {
	b.probed, b.calmAt = now, now
	b.judgeDrain(now)
	switch {
	case !gone && b.longer():
		b.minRTT, b.seenAt, b.detour = min(b.probing, maxRTT), now, 0
		b.yield()
	case gone || b.probing == 0 || b.probing <= b.minRTT+min(b.minRTT/16+b.grain(), max(b.waited/2, b.grain())):
		if b.fails = min(b.fails, 0) - 1; !b.competing || -b.fails >= quietProbes && b.bw() > b.pathRate()/2 {
			b.yield()
		}
	case now.Sub(b.seenAt) > maxRTTAge && b.unmoved() && b.telling() && !b.competing:
		b.minRTT, b.seenAt = min(b.probing, maxRTT), now // not a queue: the way has become longer
		b.yield()
	default:
		if b.fails = max(b.fails, 0) + 1; b.fails > 1 || b.competing {
			b.compete()
		}
	}
	b.low, b.high = 0, 0
	b.enter(refill)
}

// startupRound ends startup when the path doesn't give more.
func (b *bbr) startupRound(now units.Instant) {
	r := &b.round
	n := r.acked + r.lost
	if r.lost >= 8*b.path.MTU && r.lost*25 > n {
		b.leaveStartup()
		b.queueFull(now)
		return
	}
	x := b.bw()
	if x > b.best/4*5 {
		b.best, b.slow = x, 0
		return
	}
	if !b.before.held || r.void {
		return
	}
	if b.slow++; b.slow >= 2 {
		b.leaveStartup()
	}
}

// leaveStartupEarly ends startup as soon as packets wait (HyStart++, RFC 9406, section 4.2).
func (b *bbr) leaveStartupEarly() {
	r := &b.round
	if r.acks < 8 || b.bw() == 0 || r.least <= b.minRTT+b.minRTT/4+b.bw().Time(8*b.path.MTU) {
		return
	}
	b.leaveStartup()
}

func (b *bbr) leaveStartup() {
	b.slow = 0
	b.enter(drain)
	b.scale = b.nominal()
	b.round.reduced = true
}

// queue is how much of a queue this flow makes.
func (b *bbr) queue() units.Bytes { return b.queueAt(b.bw()) }

// queueAt is that at a rate. It is asked for several times for each piece of feedback, and changes once a round trip.
func (b *bbr) queueAt(x units.Rate) units.Bytes {
	if c := &b.queued; c.rate != x || c.scale != b.scale {
		*c = queueCache{rate: x, scale: b.scale, queue: max(queueOf(x, b.scale), 2*b.path.MTU)}
	}
	return b.queued.queue
}

// A queueCache is what queueAt answered last.
type queueCache struct {
	rate  units.Rate
	scale int64
	queue units.Bytes
}

// queueOf is that with a σ, of packets as small as it takes. It grows with the fourth root of the rate.
func queueOf(x units.Rate, scale int64) units.Bytes {
	return units.Bytes(fourthRoot(x) * scale / fullScale * scaleQueue / gbitRoot)
}

var gbitRoot = fourthRoot(units.Gbit)

// fourthRoot is that of a rate, at most of maxBBR, which is what the shift has room for, times 2^15.
func fourthRoot(x units.Rate) int64 { return int64(root(root(uint64(min(x, maxBBR))<<20) << 20)) }

// most is how long packets may wait until σ is cut.
func (b *bbr) most() units.Duration {
	if b.depth > 0 {
		return min(b.minRTT/queueMost, b.depth*depthShare/10)
	}
	return b.minRTT / queueMost
}

// nominal is σ where nothing has asked for less. It depends on the way alone, so that flows that share one have the same. Flows come
// closer to each other by half of the wait over the round trip in each round trip: for the same time on each way the wait has to grow with
// the square of the round trip, and a bit more, as fewer round trips see a change of the rate. But at one queue all wait alike, and what each gets goes with
// more than its σ, so that no way up to evenRTT, where there are round trips enough, has a σ of its own. It is only the shortest that can't
// have half of a round trip of queue.
func (b *bbr) nominal() int64 {
	wait := evenWait
	if long := float64(b.minRTT) / float64(evenRTT); long > 1 {
		wait = units.Duration(float64(evenWait) * long * long * math.Sqrt(long))
	}
	return max(int64(min(wait, b.minRTT/nominalShare))*fullScale/int64(scaleRate), leastScale)
}

// target is how long packets should wait.
func (b *bbr) target() units.Duration {
	if b.depth > 0 {
		return min(b.minRTT/queueTarget, b.depth*depthShare/10)
	}
	return b.minRTT / queueTarget
}

// adjust cuts σ while packets wait for long, and lets it grow back.
func (b *bbr) adjust(queue units.Duration) {
	own := b.bw().Time(2 * b.path.MTU)
	if queue <= max(2*b.target(), b.target()/2+b.grain(), b.kindred()) {
		b.calmAt, b.calm = b.now, b.scale
	}
	if queue > b.most()+own {
		// Others may fill the queue: it is no use to vanish before that is known.
		b.scale = max(b.scale-b.scale/scaleCut, min(b.calm/4, b.scale))
	} else {
		b.scale += b.nominal()/scaleCut + 1
	}
	b.scale = min(max(b.scale, leastScale), b.nominal())
}

// share moves the window by how long packets waited: it should be as long as q bytes of this flow's take, q by its own rate. The sum
// of what it was off lately moves the window as well. For all flows together the queue follows in a round trip, and that sum stays near
// nothing; one that has more or less than the others finds the same sign for long, and is the sooner equal to them.
// A shallow buffer, marks and a queue that is too short are left to the model: there it is losses, marks and growth that limit. So are
// hosts whose feedback comes in lumps: then the largest of several rates tells more than how long packets waited.
func (b *bbr) share(queue units.Duration) {
	model := b.bdp() + b.queue()
	switch {
	case b.fair == 0 || b.more > 0 && b.round.held || b.marks.window > 0 || b.depth > 0 && b.depth < b.minRTT/2 ||
		b.pause > b.rtt()/regular+b.bw().Time(4*b.path.MTU):
		b.fair = model
		return
	case !b.round.held:
		return
	}
	x := units.RateOf(b.fair, max(b.minRTT+queue, 1))
	q := b.queueAt(x)
	short := q - x.Bytes(queue)
	b.lag += (min(max(int64(short)*fullScale/int64(q), -fullScale), fullScale) - b.lag) / shareRounds
	w := b.fair + (short+q*units.Bytes(b.lag)/fullScale)*shareGain/10
	b.fair = min(max(w, model/2), 2*model)
}

// even is the window with this flow's queue: that which share has moved, or the model's.
func (b *bbr) even() units.Bytes {
	if b.fair > 0 {
		return b.fair
	}
	return b.bdp() + b.queue()
}

// decide sets the limits.
func (b *bbr) decide() {
	least := leastPackets * b.path.MTU
	bw, bdp := b.bw(), b.bdp()
	extra := min(max(b.batch[0], b.batch[1]), bw.Bytes(b.pause), max(bdp, bw.Bytes(5*units.Millisecond)))
	extra += b.losses.random(bdp, b.path.MTU) // counts as in flight until it is proved to be lost
	switch b.phase {
	case startup:
		b.limit, b.pace = b.startLimits()
	case drain:
		b.limit = bdp*3/4 + extra
		b.pace = bw
	case down:
		b.limit = bdp*95/100 + extra
		b.pace = bw
	case probeRTT:
		b.limit = bdp/2 + extra
		b.pace = bw / 2
	case refill:
		b.limit = b.even() + extra
		b.pace = bw
	default:
		w := b.even()
		if b.more > 0 {
			w = bdp + min(b.queue()<<b.more, max(bdp/2, b.queue()))
		}
		b.limit = w + extra
		b.pace = min(units.RateOf(w, max(b.minRTT, 1)), bw/4*6)
		b.pace = max(b.pace, bw/100*105)
	}
	if b.competing && b.phase != probeRTT {
		b.limit = max(b.rival.window, bdp+b.queue()) + extra
		b.pace = max(units.RateOf(b.limit, b.rtt())/4*5, bw)
	}
	b.allowed = max(b.limit, least)
	b.limit = b.marks.bound(b.allowed)
	b.pace = b.trims.bound(min(max(b.pace, units.RateOf(least, b.rtt()), minBBR), maxBBR))
	if b.path.LineRate > 0 {
		b.pace = min(b.pace, b.path.LineRate)
	}
}

// unheard reports whether the path is short, of unknown rate, and nothing was heard on it yet.
func (b *bbr) unheard() bool {
	return b.heardAt == 0 && b.path.LineRate == 0 && b.srtt > 0 && b.srtt < startSpan
}

// waits reports whether a round trip is so much longer than the one before the first packet that packets wait: others fill a queue,
// though nothing has told of it yet, and startup does not add to it. Hosts may be late by some of leastRound.
func (b *bbr) waits(rtt units.Duration) bool {
	return b.path.LineRate == 0 && b.first > 0 && b.first < startSpan && rtt > 2*b.first+leastRound
}

// startLimits are those of startup. Until something was heard the window goes within startSpan, and no more of it than what that makes
// of a round trip: others may begin at the same time, and all that they send before a mark or a loss can tell is a queue.
func (b *bbr) startLimits() (window units.Bytes, pace units.Rate) {
	window, pace = b.window, units.RateOf(b.window, b.rtt())/4*5
	if b.path.knowsPort() {
		pace = b.path.LineRate
	}
	if b.unheard() {
		pace = units.RateOf(b.window, startSpan) / 4 * 5
		window = min(window, max(pace.Bytes(b.srtt), atOnce(b.path.MTU)))
	}
	return window, pace
}

// atOnce is what may be sent before anything is known of a path, as TCP does (RFC 6928, section 2): ten packets, but 16 KiB of larger ones.
func atOnce(mtu units.Bytes) units.Bytes {
	return min(10*mtu, max(leastPackets*mtu, 16*units.KiB))
}

// root is the whole part of the square root, by Newton's method.
func root(n uint64) uint64 {
	if n < 2 {
		return n
	}
	x := uint64(1) << ((bits.Len64(n) + 1) / 2)
	for {
		y := (x + n/x) / 2
		if y >= x {
			return x
		}
		x = y
	}
}

// A meanRTT is the mean of the least round trips of parts of a round. The least of the whole round would be shorter the longer the round is,
// so that flows with a long way would think the same queue shorter than others do, and single samples are late by what hosts are.
type meanRTT struct {
	sum, least units.Duration // least is that of the part under way
	parts      int
	begun      units.Instant
}

// add takes a sample.
func (m *meanRTT) add(now units.Instant, rtt units.Duration) {
	if m.least == 0 || now.Sub(m.begun) >= partLength {
		m.sum, m.parts, m.least, m.begun = m.sum+m.least, m.parts+1, rtt, now
	}
	m.least = min(m.least, rtt)
}

// value is the mean with the part under way, or 0 without a sample.
func (m *meanRTT) value() units.Duration {
	return (m.sum + m.least) / units.Duration(max(m.parts, 1))
}
