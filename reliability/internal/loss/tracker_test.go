// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// First transmissions stay within the window and
// the receiver's buffers; the window never blocks a retransmission.
func TestWindowAndLimit(t *testing.T) {
	h := newHand(t, Timeout, 100, 1)
	require.Len(t, h.poll(7, 20), 7, "the budget bounds")
	require.Len(t, h.poll(100, 20), 13, "the window bounds")
	require.Equal(t, 20, h.s.Outstanding())
	require.Empty(t, h.poll(100, 20))
	h.env.DataLimit = 22
	require.Len(t, h.poll(100, 50), 2, "the receiver's buffers bound")

	h.after(3*handRTT + 1)
	sends := h.poll(100, 0)
	require.Len(t, sends, 22, "a repeat is not bound by the window")
	for i, s := range sends {
		require.True(t, s.Repeat)
		require.EqualValues(t, i, s.Unit)
	}
	require.Equal(t, 22, h.s.Outstanding())
}

// Repeats go first.
func TestRepeatsGoFirst(t *testing.T) {
	h := newHand(t, Timeout, 100, 1)
	h.poll(10, 1000)
	h.after(3*handRTT + 1)
	sends := h.poll(15, 1000)
	for i, s := range sends {
		require.Equal(t, i < 10, s.Repeat, "send %d", i)
	}
}

// Outstanding counts what is neither reported received nor declared lost.
func TestOutstanding(t *testing.T) {
	h := newHand(t, PathProof, 10, 1)
	h.env.DataLimit = 8
	h.poll(100, 100)
	require.Equal(t, 8, h.s.Outstanding())
	h.arrive(0, 2, 3).ack()
	require.Equal(t, 4, h.s.Outstanding(), "three received, unit 1 lost")
	require.Equal(t, []int{1}, h.units())
	require.Equal(t, 5, h.s.Outstanding())
}

func TestDone(t *testing.T) {
	h := newHand(t, Timeout, 3, 1)
	h.poll(10, 10)
	h.onFrame([]byte{frameACK, 1, 3, 0})
	require.True(t, h.s.Done())
	require.Equal(t, 3, h.s.Acknowledged())
	require.Zero(t, h.s.Outstanding())
}

// Acknowledgements are numbered: an older one may set bits but declares no loss.
func TestOlderFrameSetsBitsOnly(t *testing.T) {
	h := newHand(t, PathProof, 12, 1)
	h.env.DataLimit = 10
	h.poll(100, 100)
	h.after(handRTT)
	old := h.arrive(0, 2).frame()
	h.onFrame(h.arrive(1).frame()).onFrame(old)
	require.Empty(t, h.units(), "unit 1 has arrived, whatever the old frame says")

	old = h.arrive(5).frame()
	fresh := binaryACK(100, 3)
	h.onFrame(fresh)
	require.Equal(t, 7, h.s.Outstanding())
	h.onFrame(old)
	require.Equal(t, 6, h.s.Outstanding(), "the old frame still acknowledges unit 5")
	require.Empty(t, h.units())
}

// A frame that comes twice tells of the time when it was made: what it reports missing may have come since.
func TestRepeatedFrameProvesNothing(t *testing.T) {
	h := newHand(t, PathProof, 3, 1)
	h.poll(100, 100)
	h.s.paths[0].reordered.most = handRTT / 2
	frame := h.after(handRTT).arrive(0, 2).frame()
	require.Empty(t, h.onFrame(frame).units(), "it may be late")
	require.Empty(t, h.after(2*handRTT).onFrame(frame).units())
	require.Equal(t, []int{1}, h.onFrame(h.frame()).units())
}

// binaryACK is a frame that says nothing but a number and cum, both small.
func binaryACK(number, cum byte) []byte { return []byte{frameACK, number, cum, 0} }

// A violation of the protocol is an error, a strange frame never a panic.
func TestProtocolViolationsAreErrors(t *testing.T) {
	h := newHand(t, PathProof, 100, 2)
	h.poll(10, 100)
	for name, frame := range map[string][]byte{
		"empty":                      {},
		"unknown kind":               {7, 1, 0, 0},
		"truncated":                  {frameACK, 1},
		"unsent cum":                 {frameACK, 1, 11, 0},
		"cum beyond the transfer":    {frameACK, 1, 101, 0},
		"unsent unit":                {frameACK, 1, 0, 0, 0, 0, 10, 1, 0},
		"unsent unit in a mark":      {frameACK, 1, 0, 1, 0, 20, 1},
		"mark of an unknown channel": {frameACK, 1, 0, 1, 2, 2, 1},
		"mark of a probe too high":   {frameACK, 1, 0, 1, 0, 33, 1},
		"more marks than channels":   {frameACK, 1, 0, 3, 0, 2, 1, 1, 2, 1, 0, 2, 1},
		"run beyond the transfer":    {frameACK, 1, 0, 0, 0, 0, 99, 2, 0},
		"unfinished section":         {frameACK, 1, 0, 0, 0, 0, 1},
		"three sections":             {frameACK, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"huge number":                {frameACK, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0},
	} {
		require.Error(t, h.s.OnAck(h.now, frame), name)
		require.Equal(t, 10, h.s.Outstanding(), "%s: nothing of a bad frame counts", name)
	}
	require.NoError(t, h.s.OnAck(h.now, []byte{frameACK, 1, 10, 1, 1, 18, 5, 0, 0, 80, 0, 0}))
	require.Zero(t, h.s.Outstanding())
}

// A sender that receives nothing doesn't repeat its window for ever.
func TestSilence(t *testing.T) {
	for _, rule := range []Rule{Timeout, PathProof} {
		h := newHand(t, rule, 1000, 4)
		h.poll(1000, 1000)
		var polls, repeats int
		for deadline := h.now.Add(10 * units.Second); h.now < deadline; polls++ {
			h.out.Reset()
			h.out.Budget = 1000
			next := h.fill()
			if len(h.out.Sends) > 0 { // their timers don't run yet
				next = min(next, h.now.Add(DefaultMinTimeout))
			}
			for _, s := range h.out.Sends {
				if s.Unit.IsData() {
					repeats++
				}
				h.s.OnSent(h.now, []scheme.Sent{{Unit: s.Unit, Channel: max(s.Channel, 0)}})
			}
			require.Greater(t, next, h.now)
			h.now = min(next, deadline)
		}
		require.Less(t, repeats, 5000, "rule %d", rule)
		require.Greater(t, repeats, 100, "rule %d", rule)
		require.Less(t, polls, 2000, "rule %d", rule)
	}

	// What is acknowledged ends the silence, and nothing else does.
	for arrived, want := range []int{probeUnits, 199} {
		h := newHand(t, Timeout, 1000, 1)
		h.env.DataLimit = 200
		h.poll(1000, 1000)
		h.arrive(0).ack()
		h.after(20 * handRTT)
		if arrived > 0 {
			h.arrive(1)
		}
		h.onFrame(h.frame())
		require.Len(t, h.after(3*handRTT).units(), want-arrived)
	}
}

// When nothing was under way nothing could be acknowledged: that is no silence, after which only a few would be repeated.
func TestIdleIsNoSilence(t *testing.T) {
	h := newHand(t, Timeout, 200, 1)
	h.env.DataLimit = 1
	h.poll(1000, 1000)
	h.arrive(0).ack()
	h.env.DataLimit = 200
	require.Len(t, h.after(units.Second).units(), 199)
	require.Len(t, h.after(3*handRTT).units(), 199)
}

// A first guess of the round trip that is far too small is corrected by the
// first frame.
func TestTimeoutIsNoShorterThanSeen(t *testing.T) {
	h := newHand(t, Timeout, 100, 1)
	h.env.RTT, h.env.MinRTT = units.Microsecond, 0
	h.poll(1, 100)
	h.after(5 * handRTT).arrive(0).onFrame(h.frame())
	h.poll(1, 100)
	h.after(5 * handRTT)
	require.Empty(t, h.poll(10, 0), "the channel is known to take as long")
	h.after(2 * handRTT)
	require.Len(t, h.poll(10, 0), 1)
}

// A lost unit says whether later packets of its path have overtaken it, or there was
// just no answer.
func TestLossIsProvedOrNot(t *testing.T) {
	h := newHand(t, PathProof, 4, 1)
	require.Equal(t, []int{0, 1, 2, 3}, h.units())
	h.arrive(1, 2).ack()
	l, ok := h.s.NextLost()
	require.True(t, ok)
	require.Equal(t, Lost{Unit: 0, Channel: 0, Kind: Random}, l)
	h.s.Repeat(0)
	h.s.OnSent(h.now, []scheme.Sent{{Unit: 0}})
	h.after(4 * handRTT)
	h.s.Expire(h.now)
	for {
		l, ok := h.s.NextLost()
		if !ok {
			break
		}
		require.Equal(t, Unproved, l.Kind, "%v: no answer came", l)
		h.s.Repeat(l.Unit)
	}
}

// A unit that is left to another repair is neither outstanding nor lost until it is
// acknowledged or repeated after all.
func TestLeftUnits(t *testing.T) {
	h := newHand(t, PathProof, 100, 1)
	h.env.DataLimit = 6
	h.poll(100, 100)
	h.arrive(2, 5).ack()
	for range 4 { // 0, 1, 3 and 4
		l, ok := h.s.NextLost()
		require.True(t, ok)
		h.s.Leave(l.Unit)
	}
	require.Zero(t, h.s.Outstanding())
	h.after(100 * handRTT)
	require.Empty(t, h.units(), "left is left")
	h.s.Repeat(0)
	require.Equal(t, 1, h.s.Outstanding())
	h.s.OnSent(h.now, []scheme.Sent{{Unit: 0}})
	for _, u := range []scheme.Unit{1, 3, 4, 0} {
		h.board.arrive(scheme.Sent{Unit: u})
	}
	h.ack()
	require.Zero(t, h.s.Outstanding())
	require.Equal(t, 6, h.s.Acknowledged())
	h.s.Repeat(1)
	require.Zero(t, h.s.Outstanding(), "what is acknowledged isn't repeated")
	require.Zero(t, h.s.Stats().Spurious)
}

// An answer that a busy host gave late widens the timers until it may be late
// again, not for a few frames.
func TestLatenessIsRemembered(t *testing.T) {
	const rtt, every = 25 * units.Millisecond, 25 * units.Millisecond / 32
	var e estimate
	for range 1000 {
		e.sample(rtt, every)
	}
	require.Less(t, 4*e.rttvar, rtt/100)
	e.sample(rtt+10*units.Millisecond, every)
	for range 32 {
		e.sample(rtt, every)
	}
	require.Greater(t, 4*e.rttvar, 5*units.Millisecond)
	for range 32 * 20 {
		e.sample(rtt, every)
	}
	require.Less(t, 4*e.rttvar, units.Millisecond)

	// A host that stood still for seconds, at the first answer or later, makes timers of seconds while it does, and no longer.
	for _, first := range []units.Duration{8 * units.Second, rtt} {
		e = estimate{}
		for range 20 {
			e.sample(first, every)
			e.sample(8*units.Second, every)
			require.LessOrEqual(t, 4*e.rttvar, max(2*e.srtt, maxTimeout))
		}
		for range 64 {
			e.sample(rtt, every)
		}
		require.LessOrEqual(t, e.srtt+4*e.rttvar, maxTimeout+2*rtt)
	}
}

// Where a queue has just marked packets, others wait in it: silence is given three times as long.
func TestTimersWaitLongerWhereQueuesMark(t *testing.T) {
	for _, rule := range []Rule{Timeout, PathProof} {
		for _, marks := range []bool{false, true} {
			h := newHand(t, rule, 8, 1)
			h.env.Marks = marks
			require.Len(t, h.units(), 8)
			h.arrive(0, 1, 2, 3).after(handRTT).onFrame(h.frame())
			again := h.after(2 * handRTT).units()
			if !marks {
				require.Equal(t, []int{4, 5, 6, 7}, again)
				continue
			}
			require.Empty(t, again)
			require.Equal(t, []int{4, 5, 6, 7}, h.after(7*handRTT).units())
		}
	}
}
