// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// BBR makes controllers for paths that nobody described, from a rack to long lossy ones. They follow
// version 3 of BBR (draft-ietf-ccwg-bbr): a model of the path made of the largest delivery rate of the
// last round trips and the least round trip, a start that doubles, phases in which less and more is
// sent than the path carries, a bound learned from losses and marks, and a probe of the round trip.
//
// In one thing they differ from the draft. There a flow that shares its path sends at its measured
// rate and now and then a quarter more, and flows take minutes to become equal. Here the bound on what
// is in flight is what limits, always: the product of rate and round trip, and on top of it a queue
// that grows with the fourth root of the rate. (In FAST, Wei et al., IEEE/ACM ToN 14(6), 2006, section
// III, it is the same at all rates, and in Swift it grows with the square root.) Flows then become equal
// within a few seconds, because all wait in the same queue: while others share the path, too, the window
// moves by that wait alone (share), which all see alike, and not by the delivery rate, of which each sees
// the largest of its own.
//
// How long that queue is at a rate, σ, follows from the least round trip alone (nominal): a σ that each
// flow moved by what it saw differed between flows by more than it gained. It is the same from 2.4 to
// 25 ms, because flows with different σ get rates that differ by more. Marks, losses and waits of half a
// round trip cut it, and it grows back.
//
// Random losses are told from those of full queues: they are as frequent while the queue is drained.
// Only the latter bound what is in flight; for the former there is room, since they count as in flight until they are proved, and they
// left at the path's rate. Where the queue stays though this flow holds back, a
// competitor is there that fills it. Then, as Copa (Arun and Balakrishnan, NSDI 2018, section 4.1) leaves its delays alone
// there, the flow holds a share of the path (rivalWindow), until the queue stays empty without its doing, or it turns out
// that flows of this kind fill it and drain it together (commonDrain).
//
// The rate limit follows the window, and both are never less than one packet a round trip, but the rate where that is more than
// the path carries and switches trim: see trimBound.
func BBR() Factory {
	return func(p Path) Controller { return newBBR(p) }
}

// phase is what a bbr does; the names are the draft's.
type phase uint8

const (
	// startup doubles what is in flight each round trip.
	startup phase = iota
	// drain empties the queue that startup made.
	drain
	// refill sends at the rate of before, and judges nothing: what is heard is of before.
	refill
	// cruise keeps the product and the allowed queue in flight.
	cruise
	// up allows more, as no queue is seen.
	up
	// down drains the own queue for a round trip, so that the least round trip is seen.
	down
	// probeRTT sends at half of the rate until the queue is gone.
	probeRTT
	// probeWait sends more and more, to see whether packets wait for longer then.
	probeWait
)

const (
	// After stalled halves of a round trip without feedback, stalledTime at least, what is under way may be lost, and the time tells nothing of the
	// path's rate. Then a silentShare-th of the product more may go, at a silentPace-th of the rate: who waits for the first report after a
	// blackout gives away half a round trip.
	stalled     = 3
	stalledTime = 20 * units.Millisecond
	silentShare = 2
	silentPace  = 3
	// fullRTTs is for how many round trips a full queue is remembered.
	fullRTTs = 3
	minBBR   = 100 * units.Kbit
	maxBBR   = 10 * units.Tbit
)

var phaseNames = [...]string{"startup", "drain", "refill", "cruise", "up", "down", "probe RTT", "probe wait"}

type bbr struct {
	path  Path
	phase phase
	now   units.Instant

	// What has been sent and heard.
	sent, inflight units.Bytes
	heardAt, dueAt units.Instant // of the latest feedback; when there was last something sent with nothing else in flight
	round, before  bbrRound
	rounds         int            // in this phase
	batch          [2]units.Bytes // the most that one feedback told, in these and the last rounds
	pause          units.Duration // the longest that lately passed without feedback

	// The model.
	rates    [bwRounds]units.Rate // of the last rounds that tell something
	peak     units.Rate           // of bw in the last minute or so
	faded    units.Instant        // when that was last lowered
	minRTT   units.Duration       // 0: unknown
	minRTTAt units.Instant        // when it was last seen, or unseen
	srtt     units.Duration
	losses   lossTest

	// Limits. allowed is the window that the model asks for, marks aside.
	pace           units.Rate
	limit, allowed units.Bytes
	trims          trimBound
	marks          markBound

	// Startup. window is what it allows, and best the rate that a round has to exceed by a quarter.
	window units.Bytes
	first  units.Duration // round trip that was known before the first packet; 0: none was
	best   units.Rate
	slow   int  // rounds that brought no more
	lossy  bool // the last round lost much, and nothing waited in it: it may have been chance
	undo   startUndo

	// The queue.
	scale     int64 // σ
	queued    queueCache
	wait      units.Duration // how long packets lately waited
	calmAt    units.Instant  // when they last waited no longer than those of flows of this kind do
	calm      int64          // σ at calmAt
	depth     units.Duration // of the buffer, seen when it was full; 0: unknown
	depthAt   units.Instant  // when that was seen, or last grew
	fullAt    units.Instant  // when the queue was last full; 0: never
	empty     int            // rounds in a row that saw no queue
	doublings uint           // of the queue allowed, in up
	grew      bool           // doublings, at the end of the last round: what that lets in is answered by the next one, which adds none
	fair      units.Bytes    // window that share moves; 0: the model's
	lag       int64          // by how much of q packets lately waited less than they should, of fullScale
	probe     rttProbe
	spread    units.Duration // by how much packets take longer than minRTT though no queue is there: see bbr_spread.go
	waitProbe waitProbe

	// Competitors.
	rivalry rivalry
	rival   rivalWindow
	common  commonDrain
}

func newBBR(p Path) *bbr {
	if p.MTU <= 0 {
		p.MTU = 1500
	}
	p.MTU = min(p.MTU, maxMTU)
	b := &bbr{path: p, minRTT: min(max(p.BaseRTT, 0), maxRTT)}
	b.minRTTAt, b.scale, b.calm = unseen, fullScale, fullScale
	b.window = firstPackets * p.MTU
	if p.knowsPort() {
		b.window = max(leastPackets*p.MTU, min(p.BDP()/2, portWindow))
	}
	if p.Found.Rate > 0 && p.Found.MinRTT > 0 {
		b.recall(p.Found)
	}
	b.decide()
	return b
}

// recall begins with what another has found out. No start that doubles is needed then, but where that is a guess: it begins there if that
// is more than it would otherwise begin with, because from far below the path's rate nothing else gets there as soon. The first round trip
// measured takes the place of that one.
func (b *bbr) recall(f Model) {
	r := min(max(f.Rate, minBBR), maxBBR)
	if f.Guess {
		b.minRTT = min(f.MinRTT, maxRTT)
		b.window = max(b.window, r.Bytes(b.minRTT))
		return
	}
	for i := range b.rates {
		b.rates[i] = r
	}
	b.best, b.peak = r, r
	b.minRTT = min(f.MinRTT, maxRTT)
	b.window = max(b.window, b.bdp())
	b.leaveStartup()
	b.enter(refill)
}

func (b *bbr) advance(now units.Instant) units.Instant {
	b.now = max(b.now, now)
	return b.now
}

// OnSent books n bytes.
func (b *bbr) OnSent(now units.Instant, n, inflight units.Bytes) {
	now = b.advance(now)
	if n <= 0 {
		return
	}
	if b.round.begun == 0 && b.round.goal == 0 || inflight <= n && now.Sub(b.heardAt) > max(2*b.rtt(), leastRound, 2*b.pace.Time(n)) {
		// The first packet, or the first after a pause: at a short round trip, and at a low pace, there is nothing in flight between packets.
		b.beginRound(now)
		pause := now.Sub(b.heardAt)
		b.before = bbrRound{void: true, took: pause, gap: pause}
		if b.heardAt != 0 {
			b.calmAt = now // nothing of this flow waited meanwhile
		}
	}
	if inflight <= n {
		b.wait = 0 // what waited has left while there was nothing to send
		b.dueAt = now
	}
	b.sent += n
	b.round.sent += n
	b.inflight = max(inflight, 0)
}

// OnAck takes feedback.
func (b *bbr) OnAck(now units.Instant, a *Ack) {
	now = b.advance(now)
	if b.srtt == 0 && a.Smoothed > 0 {
		b.srtt = min(a.Smoothed, maxRTT)
		b.first = b.srtt
		b.decide()
	}
	if a.Acked <= 0 && a.RTT <= 0 {
		return
	}
	b.comeLate(max(a.Late, 0))
	acked := min(max(a.Acked, 0), b.sent)
	b.inflight = min(max(a.Inflight, 0), b.sent)
	if b.unheard() {
		b.window = min(b.window, max(b.inflight+acked, leastPackets*b.path.MTU)) // what a round trip of this length sent of it
	}
	b.afterPause(now)
	if b.minRTT > 0 && b.minRTT < a.Floor { // seen before all channels had answered
		b.minRTT, b.minRTTAt = min(a.Floor, maxRTT), now
	}
	b.sampleRTT(now, a.RTT)
	b.hear(now)
	b.round.acked += acked
	b.round.acks++
	b.batch[0] = max(b.batch[0], acked-b.path.MTU)
	if a.ECN {
		b.round.marked += acked
		b.hearMark()
	}
	if b.phase == startup {
		if b.inflight+acked >= b.window/2 && !b.waits(a.RTT) { // otherwise it was want of data that held back (RFC 7661)
			b.window = min(b.window+acked, maxBBR.Bytes(b.rtt()))
		}
		b.leaveStartupEarly()
	}
	b.watchDrain(now, a.RTT)
	if b.joins(now, a.RTT) {
		b.beginProbeRTT(now, true)
	}
	if b.phase == probeRTT && b.rounds > 0 && a.RTT > 0 && a.RTT <= b.base()+b.tolerance() {
		b.endProbeRTT(now, true)
	}
	if b.sent-b.inflight >= b.round.goal && now.Sub(b.round.begun) >= leastRound {
		b.endRound(now)
	}
	b.decide()
}

// hear takes that there is feedback, of packets that arrived or of ones that were trimmed.
func (b *bbr) hear(now units.Instant) {
	if b.heardAt != 0 {
		if now >= b.silentAt() {
			// What was under way then is lost, but counts as in flight until that is proved: the window has to hold as much again.
			b.round.void = true
			b.pause = max(b.pause, now.Sub(max(b.heardAt, b.dueAt)))
		}
		b.round.gap = max(b.round.gap, now.Sub(max(b.heardAt, b.round.begun)))
	}
	b.heardAt = now
}

// OnCNP takes a notification for a mark on this round.
func (b *bbr) OnCNP(now units.Instant) {
	b.advance(now)
	b.marks.told = min(b.marks.told+1, maxTold)
	if b.round.trimmed == 0 {
		b.hearMark()
	}
}

// OnLoss takes losses. What was trimmed or refused was lost to a queue or by order, and is counted
// with the others: the rule of losses is about how many. What was trimmed is marked, too.
func (b *bbr) OnLoss(now units.Instant, l Loss) {
	b.advance(now)
	if l.Bytes <= 0 || l.Kind == LossUnacknowledged {
		return
	}
	n := min(l.Bytes, b.sent)
	b.inflight = max(b.inflight-n, 0)
	if l.Kind == LossTimeout {
		b.round.void = true // in a blackout there is no rate to measure
		b.forgetRival()
		return
	}
	if l.Kind == LossGuessed {
		return // a host that stood still, or a path that did: no queue
	}
	b.round.lost += n
	if l.Kind == LossTrim {
		b.round.marked += n
		b.round.trimmed += n
		b.afterPause(now)
		b.hear(now)
		b.hearTrim(n)
	}
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
		b.limit = bw.Bytes(b.minRTT)*95/100 + extra // a spread may have become a queue of this flow's
		b.pace = b.losses.arriving(bw, b.path.MTU)
	case probeRTT:
		b.limit = bdp/2 + extra
		b.pace = bw / 2
	case refill:
		b.limit = b.even() + extra
		b.pace = bw
	case probeWait:
		w := b.even() + b.waitProbe.more
		b.limit = w + extra
		b.pace = max(units.RateOf(w, max(b.base(), 1)), bw)
	default:
		w := b.even()
		if b.doublings > 0 {
			w = bdp + min(b.queue()<<b.doublings, max(bdp/2, b.queue()))
		}
		if b.shallow() && b.fullLately() {
			b.limit, b.pace = w+min(extra, b.queue()), bw // what arrives, and nothing to find more or for what is late
			break
		}
		b.limit = w + extra
		b.pace = min(units.RateOf(w, max(b.base(), 1)), bw/4*6)
		b.pace = max(b.pace, bw/100*105)
	}
	if b.rivalry == competing && b.phase != probeRTT {
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

// Limits are the pacing rate and the window.
func (b *bbr) Limits(now units.Instant) (units.Rate, units.Bytes) {
	if now = b.advance(now); b.awaits() && now >= b.silentAt() {
		return max(b.pace/silentPace, minBBR), b.limit + b.bdp()/silentShare
	}
	return b.pace, b.limit
}

// Next is when silence changes the limits; all else is decided by feedback.
func (b *bbr) Next() units.Instant {
	if at := b.silentAt(); b.awaits() && b.now < at {
		return at
	}
	return units.Never
}

// awaits reports whether feedback is due on a path whose rate is known.
func (b *bbr) awaits() bool {
	return b.heardAt != 0 && b.inflight > 0 && b.bw() > 0 && b.phase != startup
}

// silentAt is when the path is thought silent if nothing is heard until then.
func (b *bbr) silentAt() units.Instant {
	return max(b.heardAt, b.dueAt).Add(max(stalled*b.rtt()/2, stalledTime))
}

// Model implements Modeler.
func (b *bbr) Model() Model {
	m := Model{Rate: b.bw(), MinRTT: b.minRTT, State: phaseNames[b.phase], Guess: b.phase == startup}
	if b.srtt > b.minRTT {
		m.Queue = b.srtt - b.minRTT
	}
	if b.rivalry == competing {
		m.State = "competing"
	}
	m.Full = b.fullLately()
	return m
}

func (b *bbr) rtt() units.Duration {
	switch {
	case b.srtt > 0:
		return b.srtt
	case b.minRTT > 0:
		return b.minRTT
	}
	return unknownRTT
}

// bw is the bandwidth estimate, 0 before the first.
func (b *bbr) bw() (r units.Rate) {
	for _, x := range b.rates {
		r = max(r, x)
	}
	return r
}

// bdp is the product of the model.
func (b *bbr) bdp() units.Bytes { return b.bw().Bytes(b.base()) }

// tolerance is how much longer than the least a round trip may be that counts as one: an
// eighth of what this flow lets wait.
func (b *bbr) tolerance() units.Duration {
	return max(b.bw().Time(b.queue())/8, b.minRTT/64, 10*units.Microsecond)
}

func (b *bbr) sampleRTT(now units.Instant, rtt units.Duration) {
	if rtt <= 0 {
		return
	}
	rtt = min(rtt, maxRTT)
	if b.srtt == 0 {
		b.srtt = rtt
	}
	b.srtt += (rtt - b.srtt) / 8
	if b.round.least == 0 || rtt < b.round.least {
		b.round.least = rtt
	}
	b.round.most = max(b.round.most, rtt)
	b.round.mean.add(now, rtt)
	b.waitProbe.jitter.add(now, rtt)
	if b.minRTT == 0 || rtt <= b.minRTT || b.minRTTAt == unseen {
		if b.spread > 0 {
			b.spread += max(b.minRTT-rtt, 0)
		}
		b.minRTT, b.minRTTAt = rtt, now
	} else if rtt <= b.base()+b.tolerance() {
		b.minRTTAt = now
	}
	if b.phase == probeRTT && (b.probe.least == 0 || rtt < b.probe.least) {
		b.probe.least = rtt
	}
}

// maxRTT keeps forged round trips within what products can hold.
const maxRTT = 10 * units.Second
