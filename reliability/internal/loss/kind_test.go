// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// losing sends 16 units that arrive, and 16 of which the first get lost, at a spacing: what a frame proves of them that comes later than
// it might by wait.
func losing(t *testing.T, lost int, spacing, wait units.Duration, change func(*scheme.Env)) (*hand, scheme.Losses) {
	h := newHand(t, PathProof, 64, 1)
	h.poll(16, 1000)
	for i := range 16 {
		h.arrive(i)
	}
	h.ack()
	change(&h.env)
	for i := range lost {
		h.after(spacing * units.Duration(min(i, 1)))
		h.poll(1, 1000)
	}
	h.poll(16-lost, 1000)
	for i := lost; i < 16; i++ {
		h.arrive(16 + i)
	}
	h.after(wait).ack()
	return h, h.s.Stats().Losses
}

func TestKindOfLoss(t *testing.T) {
	nothing := func(*scheme.Env) {}
	for _, c := range []struct {
		name          string
		lost          int
		spacing, wait units.Duration
		change        func(*scheme.Env)
		want          scheme.Losses
	}{
		{"nothing waits", 3, 0, 0, nothing, scheme.Losses{Random: 3}},
		{"a little of the round trip is no queue", 3, 0, handRTT / waitShare, nothing, scheme.Losses{Random: 3}},
		{"packets wait", 3, 0, handRTT / 3, nothing, scheme.Losses{Queue: 3}},
		{"marks", 3, 0, 0, func(e *scheme.Env) { e.ECN = true }, scheme.Losses{Queue: 3}},
		{"the congestion control says so", 3, 0, 0, func(e *scheme.Env) { e.Full = true }, scheme.Losses{Queue: 3}},
		{"where switches trim", 3, 0, handRTT / 3, func(e *scheme.Env) { e.Trims = true }, scheme.Losses{Random: 3}},
		{"nothing got through for long", 12, leastBlackout / 10, 0, nothing, scheme.Losses{Blackout: 12}},
		{"few packets are no blackout", blackoutPackets - 1, leastBlackout * 7 / 40, 0, nothing, scheme.Losses{Random: blackoutPackets - 1}},
		{"a burst is none", 12, leastBlackout / 20, 0, nothing, scheme.Losses{Random: 12}},
	} {
		h, got := losing(t, c.lost, c.spacing, c.wait, c.change)
		require.Equal(t, c.want, got, c.name)
		if h.env.Full {
			require.Equal(t, 16, h.s.Disturbed(), "those that arrived are, too")
		} else if c.want.Random == 0 {
			require.GreaterOrEqual(t, h.s.Disturbed(), c.lost, c.name)
		} else {
			require.Zero(t, h.s.Disturbed(), c.name)
		}
		for range c.lost {
			l, ok := h.s.NextLost()
			require.True(t, ok, c.name)
			require.Equal(t, h.s.Kind(l.Unit), l.Kind, c.name)
			h.s.Repeat(l.Unit)
		}
		require.EqualValues(t, c.want.Blackout, h.s.BlackedOut(), c.name)
	}
}

// The frame behind one that came late still tells of what was lost while packets waited, the next one doesn't.
func TestQueueIsRememberedForAFrame(t *testing.T) {
	h, _ := losing(t, 0, 0, handRTT/2, func(*scheme.Env) {})
	for round, want := range []Kind{Queue, Random} {
		h.poll(4, 1000)
		n := len(h.sends)
		h.arrive(n - 1).ack()
		for range 3 {
			l, ok := h.s.NextLost()
			require.True(t, ok)
			require.Equal(t, want, l.Kind, "round %d", round)
			h.s.Leave(l.Unit)
		}
		require.Equal(t, want == Queue, h.s.Queued(), "round %d", round)
	}
}

// A loss that is taken back counts as none.
func TestLossIsTakenBack(t *testing.T) {
	h, got := losing(t, 2, 0, 0, func(*scheme.Env) {})
	require.Equal(t, scheme.Losses{Random: 2}, got)
	h.arrive(16).ack()
	require.Equal(t, scheme.Losses{Random: 1, Disproved: 1}, h.s.Stats().Losses)
	require.Equal(t, 1, h.s.Disproved())
}

// A round trip that has become longer for good is no queue for longer than twice floorAge.
func TestFloorIsForgotten(t *testing.T) {
	var e estimate
	now := units.Instant(units.Second)
	wait := func(rtt units.Duration) units.Duration {
		by, _ := e.floor.wait(now, rtt)
		return by
	}
	require.Zero(t, wait(30*units.Millisecond))
	require.Zero(t, wait(10*units.Millisecond))
	for end := now.Add(2 * floorAge); now < end; now = now.Add(units.Second) {
		require.Equal(t, 10*units.Millisecond, wait(20*units.Millisecond), "%v", now)
	}
	now = now.Add(floorAge / 2)
	require.Zero(t, wait(20*units.Millisecond))
}

// TestAnswersAreLate: packets wait if all answers of a frame are a little late, or one is very late, by the least round trip of their channel
// or, if that is hardly less, of all.
func TestAnswersAreLate(t *testing.T) {
	const every = 400 * units.Microsecond
	const little, much = handRTT/waitShare + every/pauseShare, handRTT/longWaitShare + longWaitFrames*every
	for _, c := range []struct {
		least units.Duration // of all channels
		by    []units.Duration
		waits bool
	}{
		{handRTT, nil, false},
		{handRTT, []units.Duration{little}, false},
		{handRTT, []units.Duration{little + 1}, true},
		{handRTT, []units.Duration{little + 1, little + 1}, true},
		{handRTT, []units.Duration{little + 1, 0}, false},
		{handRTT, []units.Duration{0, little + 1}, false},
		{handRTT, []units.Duration{much, 0}, false},
		{handRTT, []units.Duration{much + 1, 0}, true},
		{handRTT, []units.Duration{0, much + 1}, true},
		{handRTT - handRTT/longWaitShare, []units.Duration{0}, true},
		{handRTT - handRTT/longWaitShare - 1, []units.Duration{0}, false},
	} {
		now := units.Instant(units.Second)
		e, all, f := estimate{}, floor{}, frameWait{}
		e.floor.wait(now, handRTT)
		all.wait(now, c.least)
		for _, by := range c.by {
			f.add(&e, &all, now, handRTT+by, every)
		}
		require.Equal(t, c.waits, f.waits(), "%v", c)
	}
}

// TestMoreIsLostThanByChance: what was lost lately while packets waited is too much by a share of what is lost while none do, and by any that
// is known of nothing.
func TestMoreIsLostThanByChance(t *testing.T) {
	lose := func(w *waitTest, n int, waits bool) (queue bool) {
		for range n {
			queue = w.lose(waits)
		}
		return queue
	}
	w := waitTest{}
	w.answered(enoughCalm-1, false)
	require.False(t, w.tooMany())
	require.True(t, lose(&w, 1, true), "too little is known")

	w = waitTest{}
	require.False(t, lose(&w, 2, false))
	w.answered(enoughCalm-2, false)
	w.answered(100, true)
	require.False(t, lose(&w, 7, true), "7 is 4 and twice 3 of 200 of 107")
	require.True(t, lose(&w, 1, true))
	w.answered(waitWindow, true)
	require.False(t, lose(&w, 30, true), "what was acknowledged before counts for a window more")
	require.True(t, lose(&w, 1, true))
	w.answered(waitWindow, true)
	require.Equal(t, []tally{{waitWindow + 100, 8}, {waitWindow, 31}}, []tally{w.before, w.waiting})
	w.answered(1, true)
	require.Equal(t, []tally{{waitWindow + 1, 31}, {}}, []tally{w.before, w.waiting})

	w = waitTest{}
	lose(&w, 3, false)
	w.answered(2*manyCalm-3, false)
	require.Equal(t, tally{2 * manyCalm, 3}, w.calm)
	w.answered(1, false)
	require.Equal(t, tally{manyCalm, 1}, w.calm, "what is long ago counts half")
}

// Channels whose least round trips differ are told.
func TestUnevenChannels(t *testing.T) {
	h := newHand(t, PathProof, 64, 2)
	h.poll(2, 1000)
	h.arrive(0).ack()
	require.Zero(t, h.s.Uneven(), "one is all that is known")
	require.Zero(t, h.s.EvenRTT())
	h.arrive(1).ack()
	require.GreaterOrEqual(t, h.s.Uneven(), handRTT)
	require.Equal(t, (h.s.paths[0].minRTT+h.s.paths[1].minRTT)/2, h.s.EvenRTT())
	h.s.paths[0].minRTT = h.s.paths[1].minRTT - 2*h.s.env.AckInterval
	require.Zero(t, h.s.EvenRTT(), "by no more than frames tell")
}

// The latest proofs are kept, to learn from those that were wrong.
func TestLatestProofsAreKept(t *testing.T) {
	const n = 2 * (provedKept + 100)
	h := newHand(t, PathProof, n, 1)
	h.env.MaxFrame = 4 * n
	h.poll(n, n)
	for i := 1; i < n; i += 2 {
		h.arrive(i)
	}
	h.ack()
	h.poll(n, n)
	require.EqualValues(t, n/2, h.s.Stats().Retransmitted)
	for i, late := range []int{n - 2, n - 4, n - 2*provedKept} {
		h.after(handRTT / 100).arrive(late).onFrame(h.frame())
		require.EqualValues(t, i+1, h.s.Stats().Losses.Disproved)
	}
	h.after(handRTT / 100).arrive(n - 2*provedKept - 2).onFrame(h.frame())
	require.EqualValues(t, 3, h.s.Stats().Losses.Disproved, "forgotten")
	require.EqualValues(t, 4, h.s.Stats().Spurious)
}
