// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	lawsRate = units.Gbit
	lawsRTT  = 25 * units.Millisecond
	lawsMTU  = 1500
)

// cruising is a bbr that knows its path, and was heard of at 1 s.
func cruising() (*bbr, units.Instant) {
	now := units.Instant(units.Second)
	b := newBBR(Path{MTU: lawsMTU, Found: Model{Rate: lawsRate, MinRTT: lawsRTT}})
	b.OnSent(now, lawsMTU, lawsMTU)
	b.OnSent(now, lawsMTU, 100*lawsMTU)
	b.OnAck(now, &Ack{RTT: lawsRTT, Smoothed: lawsRTT, Acked: lawsMTU, Inflight: 99 * lawsMTU})
	b.enter(cruise)
	b.rounds = 3
	b.decide()
	return b, now
}

// Packets that no longer wait say that others drain the queue, but not after a pause of the sender's own.
func TestBBROwnPauseIsNoDrain(t *testing.T) {
	for _, pause := range []bool{false, true} {
		b, now := cruising()
		b.wait = b.target()
		now = now.Add(30 * units.Millisecond)
		if pause {
			b.OnSent(now, lawsMTU, lawsMTU)
		} else {
			b.OnSent(now, lawsMTU, 100*lawsMTU)
		}
		b.OnAck(now.Add(lawsRTT), &Ack{RTT: lawsRTT, Acked: lawsMTU, Inflight: 50 * lawsMTU})
		require.Equal(t, !pause, b.phase == probeRTT, "pause: %v", pause)
	}
}

// The age of the least round trip doesn't count a time in which nothing was heard: who goes on after it doesn't hold back.
func TestBBRPauseDoesNotAge(t *testing.T) {
	for _, pause := range []units.Duration{0, 30 * units.Second} {
		b, now := cruising()
		b.probe.endedAt = now
		goes := func(d units.Duration) (held units.Duration) {
			for end := now.Add(d); now < end; now = now.Add(units.Millisecond) {
				b.OnSent(now, 80*lawsMTU, 2000*lawsMTU)
				b.OnAck(now, &Ack{RTT: lawsRTT + 2*units.Millisecond, Acked: 80 * lawsMTU, Inflight: 1920 * lawsMTU})
				if b.phase == probeRTT {
					held += units.Millisecond
				}
			}
			return held
		}
		require.Zero(t, goes(minRTTAge/2), "%v", pause)
		now = now.Add(pause)
		require.Zero(t, goes(minRTTAge/4), "%v", pause)
		require.NotZero(t, goes(minRTTAge), "%v", pause)
	}
}

// After one and a half round trips of silence a third of the rate goes until half a product more is in flight. Feedback ends it, as
// it ends when nothing is in flight.
func TestBBRSilence(t *testing.T) {
	b, now := cruising()
	rate, window := b.Limits(now)
	at := b.Next()
	require.Equal(t, now.Add(lawsRTT*3/2), at)
	r, w := b.Limits(at - 1)
	require.Equal(t, []any{rate, window}, []any{r, w})
	r, w = b.Limits(at)
	require.Equal(t, []any{rate / 3, window + b.bdp()/2}, []any{r, w})
	require.Equal(t, units.Never, b.Next())
	b.OnAck(at+1, &Ack{RTT: lawsRTT, Acked: lawsMTU, Inflight: 98 * lawsMTU})
	require.Greater(t, b.Next(), at+1)
	b.OnAck(at+2, &Ack{RTT: lawsRTT, Acked: lawsMTU})
	require.Equal(t, units.Never, b.Next())
	// What is sent after a long pause is no sign of silence.
	now = at.Add(units.Second)
	b.OnSent(now, lawsMTU, lawsMTU)
	require.Equal(t, now.Add(max(b.rtt()*3/2, 20*units.Millisecond)), b.Next())
}

// The room for large pieces of feedback is no more than what the path carries between two of them.
func TestBBRRoomForFeedback(t *testing.T) {
	b, _ := cruising()
	b.batch[0], b.pause = units.MiB, units.Millisecond
	b.decide()
	require.Equal(t, b.bdp()+b.queue()+lawsRate.Bytes(units.Millisecond), b.limit)
	b.batch[0] = 2 * lawsMTU
	b.decide()
	require.Equal(t, b.bdp()+b.queue()+2*lawsMTU, b.limit)
}

// σ grows back to what the least round trip asks for, and to no more: flows of one way have the same.
func TestBBRQueueFollowsFromThePath(t *testing.T) {
	for _, from := range []int64{leastScale, fullScale} {
		b, _ := cruising()
		b.scale = from
		for range 2 * scaleCut {
			b.adjust(0)
		}
		require.Equal(t, b.nominal(), b.scale)
		b.adjust(lawsRTT/2 + units.Millisecond)
		require.Less(t, b.scale, b.nominal())
	}
}

// Where the buffer is shallow σ grows by a part of itself, and to as much in the end.
func TestBBRQueueGrowsSlowlyInShallowBuffers(t *testing.T) {
	b, _ := cruising()
	b.depth, b.scale = lawsRTT/2-1, b.nominal()/16
	from := b.scale
	b.adjust(0)
	require.Equal(t, from+from/scaleCut+1, b.scale)
	for range 50 {
		b.adjust(0)
	}
	require.Equal(t, b.nominal(), b.scale)
	b.depth, b.scale = lawsRTT/2, from
	b.adjust(0)
	require.Equal(t, from+b.nominal()/scaleCut+1, b.scale)
}

// While a shallow buffer is full no more is sent than arrives, and what comes in lumps allows for no more than what is let wait.
func TestBBRFillsNoFullBuffer(t *testing.T) {
	for _, c := range []struct {
		depth units.Duration
		since units.Duration
		held  bool
	}{{lawsRTT/2 - 1, 0, true}, {lawsRTT / 2, 0, false}, {lawsRTT/2 - 1, fullRTTs * lawsRTT, false}} {
		b, now := cruising()
		b.batch[0], b.pause = 50*lawsMTU, lawsRTT
		b.depth, b.fullAt, b.now = c.depth, now, now.Add(c.since)
		b.decide()
		extra := units.Bytes(50 * lawsMTU)
		if c.held {
			extra = b.queue()
		}
		require.Equal(t, b.bdp()+b.queue()+extra, b.limit, "%+v", c)
		require.Equal(t, c.held, b.pace == b.bw(), "%+v", c)
	}
}

// A round that ended before its packets can have come back doesn't prove that the path has become slower.
func TestBBRShortRoundsProveNothing(t *testing.T) {
	for _, c := range []struct {
		took units.Duration
		want units.Rate
	}{{lawsRTT / 2, lawsRate}, {lawsRTT, lawsRate / 2}} {
		b, _ := cruising()
		for range bwRounds {
			b.before = bbrRound{held: true, took: lawsRTT}
			b.round.acked, b.round.took = lawsRate.Bytes(lawsRTT/2), c.took
			b.sampleRate()
		}
		require.InEpsilon(t, float64(c.want), float64(b.bw()), 0.01, "%v", c.took)
	}
}

// Beside a competitor a window grows to its share. How many packets may get lost meanwhile depends on how much of it it has; more cut it, once in
// two round trips.
func TestRivalWindow(t *testing.T) {
	const capacity, sent = 200 * units.Mbit, 1000 * lawsMTU
	goal := (capacity / 100 * rivalShare).Bytes(lawsRTT)
	now := units.Instant(units.Second)
	for _, c := range []struct {
		has  units.Bytes // hundredths of the share
		most float64     // that may get lost
	}{{80, 0.008}, {50, 0.05}, {20, 0.128}} {
		for _, of := range []float64{0.9, 1.1} {
			lost := units.Bytes(of * c.most * float64(sent))
			w := rivalWindow{window: goal * c.has / 100, capacity: capacity, lost: of * c.most}
			before := w.window
			round := func(n int) {
				w.step(now.Add(units.Duration(n)*lawsRTT), lawsRTT, sent, lost+lawsMTU, lawsMTU, capacity, 0)
			}
			if round(0); of < 1 {
				require.Equal(t, before+goal/rivalSteps, w.window, "%d %%, %.4f lost", c.has, w.lost)
				continue
			}
			require.InEpsilon(t, 0.92, float64(w.window)/float64(before), 0.01, "%d %%, %.4f lost", c.has, w.lost)
			cut := w.window
			round(1)
			round(2)
			require.Equal(t, cut, w.window, "once in two round trips")
		}
	}
	w := rivalWindow{window: lawsMTU, capacity: capacity}
	for n := range 2 * rivalSteps {
		w.step(now.Add(units.Duration(n)*lawsRTT), lawsRTT, sent, 0, 0, capacity, 0)
	}
	require.Equal(t, goal, w.window)
	// Who has little doesn't believe that the path carries no more, but twice what it ever had.
	w = rivalWindow{window: goal, capacity: capacity}
	w.step(now, lawsRTT, sent, 0, 0, capacity, capacity)
	require.Equal(t, goal+2*goal/rivalSteps, w.window)
}

// A probe tells what the path carries by what this flow held back, but not if that was next to nothing.
func TestRivalCapacity(t *testing.T) {
	for _, c := range []struct{ packets, factor int }{{heldPackets, 1}, {heldPackets + 1, mostCapacity}} {
		b, _ := cruising()
		const own = units.Mbit
		b.rates, b.peak = [bwRounds]units.Rate{own, own}, own
		b.probe.inflight, b.probe.wait, b.probe.least = units.Bytes(c.packets)*lawsMTU, lawsRTT, b.minRTT+lawsRTT*5/6
		b.compete()
		require.Equal(t, competing, b.rivalry)
		require.Equal(t, units.Rate(c.factor)*own, b.rival.capacity, "%d packets", c.packets)
	}
}

// Five round trips without a queue end a competition, 600 ms at least, since version 1 of BBR makes such a pause; a queue among them doesn't let it end.
func TestRivalGone(t *testing.T) {
	b, _ := cruising()
	b.rivalry = competing
	after := func(d units.Duration, queue units.Duration) bool {
		b.now = b.now.Add(d)
		b.relax(queue)
		return b.rivalry == alone
	}
	require.False(t, after(0, 0))
	require.False(t, after(quietTime, 0))
	require.False(t, after(lawsRTT, lawsRTT))
	require.False(t, after(lawsRTT, 0))
	require.False(t, after(quietTime, 0))
	require.True(t, after(1, 0))
	b.rivalry, b.srtt = competing, quietTime
	require.False(t, after(0, 0))
	require.False(t, after((quietRounds-1)*quietTime, 0))
	require.True(t, after(1, 0))
}

// A queue that has moved since the last probe, as a competitor's does, is not a longer way, though both probes saw the same. Nor is one of which
// this flow had so little that it couldn't have moved it.
func TestSwayingQueueIsNoLongerWay(t *testing.T) {
	const wait = 10 * units.Millisecond
	for _, c := range []struct {
		low, held units.Duration
		want      bool
	}{{9 * units.Millisecond, wait / 2, true}, {4 * units.Millisecond, wait / 2, false}, {9 * units.Millisecond, wait / 5, false}} {
		b, _ := cruising()
		b.probe.least, b.probe.inflight, b.peak = b.minRTT+wait, lawsRate.Bytes(c.held), lawsRate
		b.probe.wait, b.round.least, b.round.most = wait, b.probe.least, b.probe.least
		b.probe.leastWait, b.probe.mostWait = c.low, wait
		require.False(t, b.longer(), "the first probe")
		require.Equal(t, c.want, b.longer(), "%v, %v", c.low, c.held)
	}
}

// The window moves by what packets wait: at the wait that its own queue should make it stands, a longer one shrinks it and a shorter one
// lets it grow. What has long been off on one side moves it more.
func TestBBRShareMovesByTheWait(t *testing.T) {
	moved := func(part float64, lag int64) float64 {
		b, _ := cruising()
		b.fair = b.bdp() + b.queue()
		b.round.held, b.lag = true, lag
		for range 20 { // the wait at which q waits depends on the rate, and that on the wait
			b.round.least = b.minRTT + units.RateOf(b.fair, b.minRTT+max(b.round.least-b.minRTT, 0)).Time(b.queueAt(units.RateOf(b.fair, max(b.round.least, b.minRTT))))
		}
		before := b.fair
		b.share(units.Duration(part * float64(b.round.least-b.minRTT)))
		return float64(b.fair-before) / float64(b.queue())
	}
	require.InDelta(t, 0, moved(1, 0), 0.05)
	require.InDelta(t, -0.7, moved(2, 0), 0.15)
	require.InDelta(t, 0.7, moved(0, 0), 0.15)
	require.InDelta(t, 0.7*7/8, moved(1, fullScale), 0.05)
	require.InDelta(t, -0.7*7/8, moved(1, -fullScale), 0.05)
}

// The window is the model's again where marks or a shallow buffer limit, or no queue is seen.
func TestBBRShareYieldsToTheModel(t *testing.T) {
	for _, set := range []func(b *bbr){
		func(b *bbr) { b.marks.window = units.MiB }, func(b *bbr) { b.depth = b.minRTT/2 - 1 }, func(b *bbr) { b.doublings = 1 },
	} {
		b, _ := cruising()
		b.round.held = true
		b.fair = b.bdp()
		b.share(b.minRTT / nominalShare)
		require.NotEqual(t, b.bdp()+b.queue(), b.fair)
		set(b)
		b.share(b.minRTT / nominalShare)
		require.Equal(t, b.bdp()+b.queue(), b.fair)
	}
}

// However long packets wait, the window stays within half and twice the model's, and one that a sender doesn't use stands.
func TestBBRShareIsBounded(t *testing.T) {
	for _, wait := range []units.Duration{0, lawsRTT} {
		b, _ := cruising()
		model := b.bdp() + b.queue()
		b.fair = model
		b.share(wait)
		require.Equal(t, model, b.fair, "not held")
		b.round.held = true
		for range 1000 {
			b.share(wait)
		}
		require.Equal(t, map[units.Duration]units.Bytes{0: 2 * model, lawsRTT: model / 2}[wait], b.fair)
	}
}

// The least round trip is looked for 2 s after it was last seen or looked for: after a half of that where the probe before found the
// queue filled, or gone beside a competitor, or a way that may have become longer, after a quarter where startup alone has seen it, and after a
// half more where it found a competitor filling it again. But not within 15 round trips.
func TestBBRProbesWhenTheLeastIsOld(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(b *bbr)
		age  units.Duration
	}{
		{"seen", func(*bbr) {}, minRTTAge},
		{"never probed", func(b *bbr) { b.probe.endedAt, b.minRTTAt = 0, b.calmAt }, minRTTAge / 4},
		{"a probe has failed", func(b *bbr) { b.rivalry = suspected }, minRTTAge / 2},
		{"failed beside a competitor", func(b *bbr) { b.rivalry = competing }, minRTTAge / 2 * 3},
		{"gone beside a competitor", func(b *bbr) { b.rivalry, b.probe.gone = competing, 1 }, minRTTAge / 2},
		{"a detour", func(b *bbr) { b.probe.detour = lawsRTT }, minRTTAge / 2},
		{"a long way", func(b *bbr) { b.srtt = units.Second }, 15 * units.Second},
		{"probed later than seen", func(b *bbr) { b.probe.endedAt = b.minRTTAt.Add(units.Second) }, minRTTAge + units.Second},
		{"seen later than probed", func(b *bbr) { b.minRTTAt = b.probe.endedAt.Add(units.Second) }, minRTTAge + units.Second},
	} {
		b, now := cruising()
		b.probe.endedAt, b.minRTTAt, b.calmAt = now, now, now
		c.set(b)
		calm := func(at units.Instant) units.Instant { b.calmAt = at; return at } // packets don't wait
		require.False(t, b.wantsProbe(calm(now.Add(c.age))), c.name)
		require.True(t, b.wantsProbe(calm(now.Add(c.age)+1)), c.name)
	}
}

// Packets that have waited long for 30 round trips ask for a probe at once, but not within half a second of the last one, and not
// beside a competitor that is known.
func TestBBRProbesWhenPressed(t *testing.T) {
	b, now := cruising()
	const long = pressedRounds * lawsRTT
	b.calmAt = now
	wants := func(after units.Duration) bool {
		b.minRTTAt = now.Add(after) // the least round trip is no reason
		return b.wantsProbe(now.Add(after))
	}
	b.probe.endedAt = now
	require.False(t, wants(long))
	require.True(t, wants(long+1))
	b.probe.endedAt = now.Add(long)
	require.False(t, wants(long+minRTTAge/4))
	require.True(t, wants(long+minRTTAge/4+1))
	b.rivalry = competing
	require.False(t, wants(long+minRTTAge/4+1))
	b.rivalry, b.minRTT = alone, units.Millisecond
	b.probe.endedAt, b.calmAt = now, now.Add(long)
	require.False(t, wants(long+pressedTime), "30 round trips are less than 100 ms")
	require.True(t, wants(long+pressedTime+1))
}

// Packets count as calm that wait for no longer than twice the target, or than behind eight flows of this kind, and all do at the end of a probe, in a round that tells nothing,
// and after a pause, in which nothing was sent.
func TestBBRCalm(t *testing.T) {
	at := func(do func(b *bbr)) bool {
		b, now := cruising()
		b.now = now.Add(units.Second)
		b.calmAt = now
		do(b)
		return b.calmAt == b.now
	}
	require.True(t, at(func(b *bbr) { b.adjust(2 * b.target()) }))
	require.False(t, at(func(b *bbr) { b.adjust(2*b.target() + 1) }))
	few := func(b *bbr) { b.peak = units.Mbit } // a few packets of others' take a quarter of the round trip
	require.True(t, at(func(b *bbr) { few(b); b.depth = b.minRTT / 8; b.adjust(b.target()/2 + b.minRTT/4) }))
	require.False(t, at(func(b *bbr) { few(b); b.depth = b.minRTT / 8; b.adjust(b.target()/2 + b.minRTT/4 + 1) }))
	kin := func(b *bbr) { b.peak, b.minRTT = 200*units.Mbit, 2*units.Millisecond } // as behind flows of this kind
	require.True(t, at(func(b *bbr) { kin(b); b.adjust(b.kindred()) }))
	require.False(t, at(func(b *bbr) { kin(b); b.adjust(b.kindred() + 1) }))
	require.True(t, at(func(b *bbr) { b.endProbeRTT(b.now, true) }))
	require.True(t, at(func(b *bbr) { b.round.void = true; b.next(b.now, 0, false) }))
	require.False(t, at(func(b *bbr) { b.next(b.now, 0, false) }))
	require.True(t, at(func(b *bbr) { b.OnSent(b.now, lawsMTU, lawsMTU) }))
	require.False(t, at(func(b *bbr) { b.OnSent(b.now, lawsMTU, 2*lawsMTU) }))
}

// σ is the same on all ways from 2.4 to 25 ms, a twentieth of a round trip on shorter ones, and grows with more than the square on longer ones.
func TestBBRNominal(t *testing.T) {
	const us = units.Microsecond
	for _, c := range []struct{ rtt, wait units.Duration }{
		{400 * us, 20 * us}, {2 * units.Millisecond, 100 * us}, {2400 * us, 120 * us}, {25 * units.Millisecond, 120 * us},
		{100 * units.Millisecond, 32 * 120 * us}, {units.Second, 50 * units.Millisecond},
	} {
		b, _ := cruising()
		b.minRTT = c.rtt
		b.scale = b.nominal()
		require.InEpsilon(t, float64(c.wait), float64(units.Gbit.Time(queueOf(units.Gbit, b.scale))), 0.02, "%v", c.rtt)
	}
}

// A queue grows with the fourth root of the rate.
func TestBBRQueueOfARate(t *testing.T) {
	for _, x := range []units.Rate{minBBR, units.Gbit, maxBBR / 16} {
		require.InEpsilon(t, 2, float64(queueOf(16*x, fullScale))/float64(queueOf(x, fullScale)), 0.001, "%v", x)
	}
	require.EqualValues(t, scaleQueue, queueOf(units.Gbit, fullScale))
	require.Equal(t, queueOf(maxBBR, fullScale), queueOf(2*maxBBR, fullScale), "what a window of twice the model's may come to")
}

// Where channels differ in length, the least round trip is what a window takes that all of them share, but no more than what was measured.
func TestBBRFloor(t *testing.T) {
	for floor, want := range map[units.Duration]units.Duration{lawsRTT - 1: lawsRTT, lawsRTT + units.Millisecond: lawsRTT + units.Millisecond, units.Minute: 2 * lawsRTT} {
		b, now := cruising()
		b.OnAck(now+1, &Ack{RTT: 2 * lawsRTT, Acked: lawsMTU, Inflight: 98 * lawsMTU, Floor: floor})
		require.Equal(t, want, b.minRTT)
	}
}

// The mean is that of the least of each part of a round, whatever came late within it.
func TestMeanRTT(t *testing.T) {
	var m meanRTT
	require.Zero(t, m.value())
	for i, rtt := range []units.Duration{5, 3, 9, 7, 8, 40, 2} { // three parts: 3, 7, 2
		m.add(units.Instant(i)*units.Instant(partLength)/3, rtt*units.Millisecond)
	}
	require.Equal(t, 4*units.Millisecond, m.value())
}

// A queue that is gone for a round may have been drained by others; in the next it is room.
func TestBBRGrowsOnlyIntoRoom(t *testing.T) {
	b, _ := cruising()
	for range emptyRounds {
		b.round.held = true
		b.watchQueue(0)
		require.Zero(t, b.doublings)
	}
	b.watchQueue(b.target())
	for range emptyRounds {
		b.watchQueue(0)
		require.Zero(t, b.doublings)
	}
	b.watchQueue(0)
	require.Equal(t, uint(1), b.doublings)
}

// Packets may wait as behind eight flows of this kind, if the buffer and two round trips hold as much, before others are looked for.
func TestBBRKindred(t *testing.T) {
	b, _ := cruising()
	b.peak, b.minRTT = 200*units.Mbit, 2*units.Millisecond
	require.InEpsilon(t, 1250*math.Sqrt(40)/4, float64(b.kindred()/units.Microsecond), 0.02) // the wait goes with the root of 1 Gbit/s over the rate
	b.depth = units.Millisecond
	require.Equal(t, units.Millisecond, b.kindred())
	b.depth, b.peak = 0, units.Mbit
	require.Equal(t, 2*b.minRTT, b.kindred())
	b.peak = 0
	require.Zero(t, b.kindred())
}

// A probe that leaves more than a half of the queue has found a competitor, however short the queue is; a second one decides.
func TestBBRProbeLeavesTheQueue(t *testing.T) {
	for _, c := range []struct {
		left    units.Duration // of 2 ms
		rivalry rivalry
	}{{900 * units.Microsecond, alone}, {1100 * units.Microsecond, competing}} {
		b, now := cruising()
		for range 2 {
			require.NotEqual(t, competing, b.rivalry)
			b.probe.wait, b.probe.least = 2*units.Millisecond, b.minRTT+c.left
			b.endProbeRTT(now, false)
		}
		require.Equal(t, c.rivalry, b.rivalry, "%v", c.left)
	}
}

// The first round trip measured takes the place of one that was known before, even after a pause.
func TestFirstRoundTripCounts(t *testing.T) {
	b := newBBR(Path{MTU: lawsMTU, BaseRTT: lawsRTT / 2})
	b.OnSent(1, 2*lawsMTU, 2*lawsMTU)
	b.OnAck(2, &Ack{Acked: lawsMTU, Inflight: lawsMTU}) // it doesn't say how long it took
	b.OnAck(units.Instant(minRTTAge), &Ack{Acked: lawsMTU, RTT: lawsRTT})
	require.Equal(t, lawsRTT, b.minRTT)
}

// After a blackout one probe that leaves the queue decides that the competitor is still there, but two where the last one had seen the queue gone.
func TestBlackoutInACompetition(t *testing.T) {
	for gone, want := range []rivalry{suspected, alone} {
		b, now := cruising()
		b.rivalry, b.probe.gone = competing, gone
		b.OnLoss(now, Loss{Bytes: lawsMTU, Kind: LossTimeout})
		for r := want; r < competing; r++ {
			require.Equal(t, r, b.rivalry)
			b.probe.wait, b.probe.least = lawsRTT, b.minRTT+lawsRTT*5/6
			b.endProbeRTT(now, false)
		}
		require.Equal(t, competing, b.rivalry)
	}
}

// What a piece of feedback costs a flow that knows its path; BenchmarkBBR is of one that doesn't.
func BenchmarkBBRCruising(b *testing.B) {
	c, now := cruising()
	for b.Loop() {
		now += 4000
		c.OnSent(now, lawsMTU, 3*units.MiB)
		c.OnAck(now, &Ack{RTT: lawsRTT + lawsRTT/100, Smoothed: lawsRTT, Acked: lawsMTU, Inflight: 3 * units.MiB})
		c.Limits(now)
	}
}
