// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// These tests go through the clauses of loss that is confirmed by the path. Units are spread one by one: unit u
// travels on channel u mod channels.

// A missing unit is lost once a later packet of the same channel has arrived, and
// not because of later packets of other channels.
func TestOnlyTheSameChannelConfirms(t *testing.T) {
	h := newHand(t, PathProof, 100, 2)
	h.env.DataLimit = 8
	h.poll(100, 100)
	h.arrive(1, 3, 5, 7).ack()
	require.Empty(t, h.units(), "channel 0 has shown nothing")
	h.arrive(2).ack()
	require.Equal(t, []int{0}, h.units())
}

// Only a unit's latest transmission can be proved lost: the same unit isn't repeated
// again by evidence about the first one.
func TestOnlyTheLatestTransmissionCounts(t *testing.T) {
	h := newHand(t, PathProof, 100, 2)
	h.env.DataLimit = 8
	h.poll(100, 100)
	h.arrive(2).ack()
	require.Equal(t, []int{0}, h.units())
	h.arrive(4, 6).ack()
	require.Empty(t, h.units())
	// The repeat went out on the other channel; probes followed it there.
	repeat := h.indexOf(0, 1)
	require.Equal(t, 1, h.sends[repeat].Channel)
	h.poll(100, 100)
	h.arrive(1, 3, 5, 7, h.last(1)).ack()
	require.Equal(t, []int{0}, h.units(), "a probe behind the repeat arrived, the repeat did not")
}

// indexOf finds the n-th transmission of a unit.
func (h *hand) indexOf(u scheme.Unit, n int) int {
	for i, s := range h.sends {
		if s.Unit == u {
			if n == 0 {
				return i
			}
			n--
		}
	}
	h.t.Fatalf("unit %d was not sent so often", u)
	return 0
}

// last is the last transmission on a channel.
func (h *hand) last(channel int) int {
	for i := len(h.sends) - 1; ; i-- {
		if h.sends[i].Channel == channel {
			return i
		}
	}
}

// A loss is proved by an acknowledgement that reports the unit missing. What a frame doesn't cover is unknown.
func TestOutsideCoverageIsUnknown(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 20
	h.poll(100, 100)
	h.after(handRTT)
	// Unit 9 was the last to arrive, and the frame covers units 0 to 4 only.
	h.onFrame([]byte{frameACK, 1, 0, 1, 0, 9 << 1, 6, 0, 0, 2, 3, 0})
	require.Equal(t, []int{0, 1}, h.units())
	// The next one covers 7 and 8, with the same mark.
	h.onFrame([]byte{frameACK, 2, 0, 1, 0, 9 << 1, 6, 7, 0, 1, 1, 0})
	require.Equal(t, []int{7}, h.units(), "7 is missing, 8 is there, 5 and 6 are still unknown")
}

// A repeat found unnecessary, and a packet that was only overtaken, widen what a channel
// is allowed to reorder by (RFC 8985, 6.2), which is forgotten later.
func TestReorderingWindow(t *testing.T) {
	h := newHand(t, PathProof, 1000, 1)
	h.env.DataLimit = 4
	h.poll(100, 100)
	h.arrive(0, 2).ack()
	require.Equal(t, []int{1}, h.units())
	// The original was only late: it arrives before the repeat can.
	h.after(handRTT / 4).arrive(1).onFrame(h.frame())
	require.EqualValues(t, 1, h.s.Stats().Spurious)
	p := &h.s.paths[0]
	require.Greater(t, p.reorderWindow(), handRTT/4)
	require.Less(t, p.reorderWindow(), handRTT/2)

	h.arrive(3).ack()
	h.env.DataLimit = 8
	sent := len(h.sends)
	h.poll(100, 100) // 4 5 6 7
	h.after(handRTT).arrive(sent, sent+2, sent+3).onFrame(h.frame())
	require.Empty(t, h.units(), "5 may be as late as 1 was")
	h.onFrame(h.after(handRTT / 2).arrive(h.last(0)).frame())
	require.Equal(t, []int{5}, h.units())

	for range 2 {
		p.reordered.decay(h.after(2*maxPeriod*p.srtt).now, p.srtt)
	}
	require.Zero(t, p.reorderWindow())
	require.EqualValues(t, 1, h.s.Stats().Spurious)
}

// A unit that no frame had room to report wasn't late.
func TestUncoveredIsNotLate(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 20
	h.poll(100, 100)
	// Unit 9 arrived; the frame covers nothing but its place.
	h.after(handRTT).onFrame([]byte{frameACK, 1, 0, 1, 0, 9 << 1, 6, 9, 1, 0})
	require.Empty(t, h.units())
	h.after(handRTT).onFrame([]byte{frameACK, 2, 10, 0})
	require.Zero(t, h.s.paths[0].reorderWindow())
}

// The most of many late packets is remembered, and what one sees of a link that became
// better takes its place.
func TestReorderWindowPeriods(t *testing.T) {
	e := estimate{srtt: handRTT, minRTT: handRTT, latestRTT: handRTT}
	now := units.Instant(0)
	late := func(n int, by units.Duration) {
		for range n {
			now = now.Add(handRTT)
			e.sampleReordering(now, now.Add(-handRTT-by), 0)
		}
	}
	late(1, 4*units.Millisecond)
	require.Equal(t, 5*units.Millisecond, e.reorderWindow(), "a quarter more")
	late(periodSamples, units.Millisecond)
	require.Equal(t, 5*units.Millisecond, e.reorderWindow())
	late(2*periodSamples+2, units.Millisecond)
	require.Equal(t, units.Millisecond*5/4, e.reorderWindow())
	late(1, units.Second)
	require.Equal(t, handRTT, e.reorderWindow(), "a round trip at most")
}

// When the receiver has everything, what was repeated a moment ago was repeated for
// nothing, and the last frames of a short transfer, which never come, aren't needed to
// learn that.
func TestCompletedTransferTeaches(t *testing.T) {
	h := newHand(t, PathProof, 4, 1)
	h.poll(100, 100)
	h.arrive(0, 2, 3).ack()
	require.Equal(t, []int{1}, h.units())
	h.s.OnCompleted(h.after(handRTT / 4).now)
	require.EqualValues(t, 1, h.s.Stats().Spurious)
	require.Greater(t, h.s.paths[0].reorderWindow(), handRTT/4)

	h = newHand(t, PathProof, 4, 1)
	h.poll(100, 100)
	h.arrive(0, 2, 3).ack()
	h.units()
	h.s.OnCompleted(h.after(handRTT).now)
	require.Zero(t, h.s.Stats().Spurious, "the repeat may have been what was missing")

	// One that was reported missing, too early to count as lost, teaches the same, whether a frame says later that it is there or nothing does.
	for _, completed := range []bool{false, true} {
		h := suspect(t)
		h.after(handRTT / 2)
		if completed {
			h.s.OnCompleted(h.now)
		} else {
			h.arrive(1).onFrame(h.frame())
		}
		require.Greater(t, h.s.paths[0].reordered.most, handRTT/2)
	}
}

// suspect is a transfer on a channel that is known to reorder, of whose first four units 1 was reported missing, too early to count as lost.
func suspect(t *testing.T) *hand {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 4
	h.s.paths[0].reordered = reordering{most: handRTT / 2, begun: h.now}
	h.poll(100, 100)
	h.arrive(0, 2, 3).ack()
	require.Empty(t, h.units())
	return h
}

// A repeat that was handed out, and not injected before an acknowledgement came, counts
// as one, for nothing.
func TestLateInjectionIsCounted(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 4
	h.poll(100, 100)
	h.arrive(0, 2).ack()
	h.out.Reset()
	h.out.Budget, h.out.Window = 10, 100
	h.fill()
	require.Equal(t, scheme.Unit(1), h.out.Sends[0].Unit)
	h.arrive(1).onFrame(h.frame())
	h.s.OnSent(h.now, []scheme.Sent{{Unit: 1}})
	s := h.s.Stats()
	require.EqualValues(t, 5, s.Sent)
	require.EqualValues(t, 1, s.Retransmitted)
	require.EqualValues(t, 1, s.Spurious)
}

// A mark is of the earliest unconfirmed transmission of its unit on the channel,
// not of a later repeat of it on the same channel.
func TestMarkMapsToEarliestTransmission(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 4
	h.poll(100, 100)
	h.arrive(1).ack()
	require.Equal(t, []int{0}, h.units(), "order 1 lost, order 2 confirmed")
	p := &h.s.paths[0]
	require.EqualValues(t, 2, p.delivered)
	h.onFrame(h.frame())
	require.EqualValues(t, 2, p.delivered, "the same mark again says nothing new")
	h.arrive(2).ack()
	require.EqualValues(t, 3, p.delivered)
}

// The newest mark of a channel counts, of all frames so far: one with an
// older count is ignored.
func TestMarksOnlyAdvance(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.poll(10, 100)
	h.after(handRTT)
	h.onFrame([]byte{frameACK, 1, 0, 1, 0, 5 << 1, 6})
	h.onFrame([]byte{frameACK, 2, 0, 1, 0, 7 << 1, 5})
	require.EqualValues(t, 6, h.s.paths[0].delivered)
	h.onFrame([]byte{frameACK, 3, 0, 1, 0, 7 << 1, 7})
	require.EqualValues(t, 8, h.s.paths[0].delivered)
}

// When a channel has nothing left to send behind an unconfirmed packet, two probes follow it.
func TestProbesFollowTwice(t *testing.T) {
	h := newHand(t, PathProof, 6, 2)
	require.Len(t, h.poll(100, 100), 6)
	probes := map[int][]scheme.Unit{}
	for range 50 {
		h.after(20 * units.Microsecond)
		for _, s := range h.poll(100, 100) {
			require.True(t, s.Unit.IsProbe())
			require.False(t, s.Repeat)
			probes[s.Channel] = append(probes[s.Channel], s.Unit)
		}
	}
	want := []scheme.Unit{scheme.Probe, scheme.Probe + 1}
	require.Equal(t, map[int][]scheme.Unit{0: want, 1: want}, probes)
	require.Equal(t, 6, h.s.Outstanding(), "probes are not outstanding units")
}

// Where others wait for the processor, the first probe of a short transfer gives the acknowledgement the time to come.
func TestProbesWaitWhereContended(t *testing.T) {
	for _, contention := range []units.Duration{20 * units.Microsecond, 21 * units.Microsecond} {
		h := newHand(t, PathProof, 6, 2)
		h.env.RTT, h.env.RTTVar, h.env.Contention = 2*units.Millisecond, 100*units.Microsecond, contention
		require.Len(t, h.poll(100, 100), 6)
		var first units.Duration
		for begun := h.now; first == 0; h.after(20 * units.Microsecond) {
			if len(h.poll(100, 100)) > 0 {
				first = h.now.Sub(begun)
			}
		}
		if h.env.Contended() {
			require.GreaterOrEqual(t, first, h.env.RTT+2*h.env.RTTVar)
		} else {
			require.Less(t, first, h.env.RTT/10)
		}
	}
}

// A sender that waits for buffers or the window sends probes, too, after a pause.
func TestProbesFollowWhenBlocked(t *testing.T) {
	for _, window := range []int{4, 100} {
		h := newHand(t, PathProof, 100, 1)
		if window == 100 {
			h.env.DataLimit = 4
		}
		require.Len(t, h.poll(100, window), 4)
		require.Empty(t, h.poll(100, window), "not at once: something may follow soon")
		h.after(h.env.AckInterval)
		sends := h.poll(100, window)
		require.Len(t, sends, 1)
		require.True(t, sends[0].Unit.IsProbe())
	}
}

// A channel whose packets are all accounted for sends no probe.
func TestNoProbesBehindDeliveredPackets(t *testing.T) {
	h := newHand(t, PathProof, 6, 2)
	h.env.DataLimit = 5
	h.poll(100, 100)
	h.arrive(0, 1, 2, 3, 4).ack()
	require.Empty(t, h.poll(100, 100))
}

// When a path's probe timeout expires, its oldest units are sent on other channels: a dead channel can
// neither fill the window nor stop the transfer.
func TestDeadChannelDoesNotStop(t *testing.T) {
	const n, window = 20000, 40
	h := newHand(t, PathProof, n, 4)
	arrived, polls := 0, 0
	for ; h.board.NextMissing(0) < n && polls < 20000; polls++ {
		h.poll(20, window)
		h.after(units.Millisecond)
		for ; arrived < len(h.sends); arrived++ {
			if h.sends[arrived].Channel != 2 {
				h.arrive(arrived)
			}
		}
		if f := h.anyFrame(); f != nil {
			h.onFrame(f)
		}
	}
	require.Equal(t, n, h.board.NextMissing(0))
	require.Less(t, polls, 2000, "goodput falls by what the channel carried, not to a trickle")
	require.True(t, h.s.paths[2].presumedDead())
	require.False(t, h.s.paths[1].presumedDead())
	require.Zero(t, h.s.Stats().Spurious)
	require.LessOrEqual(t, len(h.s.paths[2].log.ring), 2048, "what a dead channel carried is forgotten with time")
	require.LessOrEqual(t, len(h.s.paths[1].log.ring), 64, "what has arrived is forgotten at once")
}

// A suspect channel is trusted again as soon as it delivers.
func TestDeadChannelRecovers(t *testing.T) {
	h := newHand(t, PathProof, 100, 2)
	h.env.DataLimit = 50
	h.poll(100, 100)
	h.s.paths[1].timeouts = deadAfter
	h.arrive(0, 1).ack()
	require.False(t, h.s.paths[1].presumedDead())
}

// The marks of an acknowledgement are loaded before its bitmap is read.
func TestMarksAreLoadedBeforeTheBitmap(t *testing.T) {
	h := newHand(t, PathProof, 100, 3)
	h.poll(10, 100)
	h.arrive(0, 1, 2)
	h.board.calls = nil
	h.frame()
	seen := false
	for _, call := range h.board.calls {
		seen = seen || call == "bitmap"
		require.False(t, seen && call == "mark", "a mark was loaded after the bitmap")
	}
	require.True(t, seen)
}

// A suspected loss that no frame resolves times out, too.
func TestSuspectedLossesExpire(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 20
	h.poll(100, 100)
	h.env.DataLimit = 25
	h.after(handRTT/2).poll(100, 100)
	// Unit 24 arrived; the frame covers nothing but its place.
	h.after(handRTT).onFrame([]byte{frameACK, 1, 0, 1, 0, 24 << 1, 6, 24, 1, 0})
	require.Empty(t, h.units())
	require.Len(t, h.s.rule.(*proofRule).suspected, 24)
	h.onFrame([]byte{frameACK, 1, 0, 0, 3, 1, 0}) // no newer, it resolves unit 3 and judges nothing
	h.now = h.s.Expire(h.now)
	require.LessOrEqual(t, h.now, units.Instant(1000).Add(7*handRTT))
	require.Contains(t, h.units(), 0)
	require.Len(t, h.s.rule.(*proofRule).suspected, 4, "those sent later")
	require.Equal(t, h.now.Add(handRTT/2), h.s.Expire(h.now))
	h.after(handRTT / 2)
	require.Contains(t, h.units(), 20)
	require.Empty(t, h.s.rule.(*proofRule).suspected)
	require.EqualValues(t, 23, h.s.Stats().Timeouts)
	checkOutstanding(t, h.s)
}

// Without any answer the oldest units are repeated in rounds, many in the first and few in those behind it, each after twice the pause of the
// one before, up to a second. The timer of each path is its own.
func TestRoundsGrowLonger(t *testing.T) {
	h := newHand(t, PathProof, 200, 2)
	h.env.DataLimit = 1
	h.poll(1000, 1000)
	h.env.DataLimit = 2
	h.after(handRTT/2).poll(1000, 1000)
	require.Equal(t, units.Instant(1000).Add(3*handRTT), h.s.Expire(h.now), "the older of two")

	h = newHand(t, PathProof, 200, 1)
	h.poll(1000, 1000)
	last := h.now
	for i, pause := range []units.Duration{3, 6, 12, 24, 48, 96, 100, 100} {
		for len(h.units()) > 0 { // what is repeated together waits for the next round
		}
		next := h.s.Expire(h.now)
		require.Equal(t, pause*handRTT, next.Sub(last), i)
		h.now, last = next, next
		want := laterQuota
		if i == 0 {
			want = firstQuota
		}
		require.Len(t, h.units(), want, i)
		require.EqualValues(t, i+1, h.s.Stats().Timeouts)
	}
}

// What waits in back-off on one path goes at once when another path shows that
// the network is back.
func TestBackoffIsResetOnAllPaths(t *testing.T) {
	for channel := range 2 {
		h := newHand(t, PathProof, 400, 2)
		h.poll(1000, 1000)
		h.arrive(0, 1).ack()
		for range 40 { // a long silence
			h.after(100*units.Millisecond).poll(1000, 1000)
		}
		require.Greater(t, h.s.paths[0].backoff, uint(3))
		require.Greater(t, h.s.paths[1].backoff, uint(3))
		h.after(10 * units.Millisecond)
		require.Empty(t, h.units())
		require.Empty(t, h.onFrame(h.frame()).units(), "the frame shows nothing new")
		// The last packet on one channel gets through.
		h.arrive(h.last(channel)).ack()
		require.Greater(t, len(h.units()), 200)
	}
}

// A path whose timer has backed off is tried again at once when the peer has answered a ping that was sent since it was tried last, but not
// more often than each 250 ms; while no ping is answered it waits for its timer.
func TestAnswerEndsBackoff(t *testing.T) {
	const answeredPause = 250 * units.Millisecond
	for _, rule := range []Rule{PathProof, Timeout} {
		h := newHand(t, rule, 100, 1)
		h.poll(1000, 1000)
		var tried units.Instant
		for pause := units.Duration(0); pause < units.Second; { // a long silence
			if h.after(units.Millisecond); len(h.units()) > 0 {
				pause, tried = h.now.Sub(tried), h.now
			}
		}
		h.env.Answered = tried // by a ping that was sent before that got lost
		h.after(answeredPause + units.Millisecond)
		require.Empty(t, h.units(), rule)
		h.env.Answered = h.now
		h.after(units.Millisecond)
		require.NotEmpty(t, h.units(), rule)
		h.env.Answered = h.now.Add(units.Millisecond)
		h.after(answeredPause - units.Millisecond)
		require.Empty(t, h.units(), rule)
		h.after(units.Millisecond)
		require.NotEmpty(t, h.units(), rule)
	}
}

// The answer to a repeat may be to what was sent before: it makes no round trip shorter.
func TestRepeatsTeachNoRoundTrip(t *testing.T) {
	h := newHand(t, PathProof, 100, 2)
	h.env.DataLimit = 8
	h.poll(100, 100)
	h.arrive(1, 2, 3, 4, 5, 6, 7).ack()
	require.Equal(t, []int{0}, h.units())
	known := *h.s.paths[1].estimate
	h.after(handRTT * 3 / 4).arrive(h.last(1)).onFrame(h.frame())
	require.Equal(t, 8, h.s.Acknowledged())
	require.Equal(t, known, *h.s.paths[1].estimate)
}

// But an answer that comes late even for the last repeat says that the way has become longer.
func TestLateAnswerToRepeatsIsARoundTrip(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 4
	h.poll(100, 100)
	h.arrive(0, 1, 2).ack()
	known := h.s.paths[0].srtt
	require.Positive(t, known)
	for len(h.units()) == 0 { // until the timer repeats the last unit
		h.after(units.Millisecond)
	}
	repeated := h.now
	h.after(2 * handRTT).arrive(3).onFrame(h.frame())
	require.Equal(t, 4, h.s.Acknowledged())
	require.Equal(t, known+(h.now.Sub(repeated)-known)/8, h.s.paths[0].srtt)
}

// Only who answers sooner than the repeat can be answered says that it was for nothing. What is newest by the marks doesn't say it: a number
// of a probe is used again, and another worker of the receiver may have put the repeat in place since they were read. By a reorder window
// that was learned so, each loss was found a round trip later, for a thousand round trips.
func TestOldRepeatsAreNotSpurious(t *testing.T) {
	for _, answer := range []units.Duration{handRTT / 4 * 3, handRTT} {
		h := newHand(t, PathProof, 100, 1)
		h.env.DataLimit = 4
		h.poll(100, 100)
		h.arrive(0, 2, 3).ack()
		require.Equal(t, []int{1}, h.units())
		h.board.present[0] |= 1 << 1 // and the channel's mark is as before
		h.onFrame(h.after(answer).frame())
		late := answer < handRTT
		require.Equal(t, late, h.s.Stats().Spurious == 1)
		require.Equal(t, late, h.s.paths[0].reorderWindow() > 0)
	}
	// What was sent once isn't a repeat, whatever the marks show.
	h := newHand(t, PathProof, 100, 1)
	h.poll(8, 100)
	h.after(handRTT).onFrame([]byte{frameACK, 1, 8, 1, 0, 3 << 1, 4})
	require.Equal(t, 8, h.s.Acknowledged())
	require.Zero(t, h.s.Stats().Spurious)
}

// A repeat that arrives after its timer teaches nothing about reordering, though what it repeats was lost by proof.
func TestLateRepeatIsNotReordering(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 4
	h.poll(100, 100)
	h.arrive(0, 2, 3).ack()
	require.Equal(t, []int{1}, h.units())
	h.after(10*handRTT).poll(0, 100)
	require.EqualValues(t, lost, h.s.window.at(1).fate)
	h.arrive(4).onFrame(h.frame())
	require.Zero(t, h.s.paths[0].reorderWindow())
}

// That no repeat is spurious while packets are only reordered between channels, and the delays of paths
// differ by less than the probe timeout, is tested over whole transfers in sr_test.go.
