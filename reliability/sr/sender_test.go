// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// PROTOCOL, Pacing and windows: first transmissions stay within the window and
// the receiver's buffers; the window never blocks a retransmission.
func TestWindowAndLimit(t *testing.T) {
	h := newHand(t, RTO, 100, 1)
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
	h := newHand(t, RTO, 100, 1)
	h.poll(10, 1000)
	h.after(3*handRTT + 1)
	sends := h.poll(15, 1000)
	for i, s := range sends {
		require.Equal(t, i < 10, s.Repeat, "send %d", i)
	}
}

// Outstanding counts what is neither reported received nor declared lost.
func TestOutstanding(t *testing.T) {
	h := newHand(t, NACK, 10, 1)
	h.env.DataLimit = 8
	h.poll(100, 100)
	require.Equal(t, 8, h.s.Outstanding())
	h.arrive(0, 2, 3).ack()
	require.Equal(t, 4, h.s.Outstanding(), "three received, unit 1 lost")
	require.Equal(t, []int{1}, h.units())
	require.Equal(t, 5, h.s.Outstanding())
}

func TestDone(t *testing.T) {
	h := newHand(t, RTO, 3, 1)
	h.poll(10, 10)
	h.take([]byte{frameACK, 1, 3, 0})
	_, done, err := h.s.Poll(h.now, &h.out)
	require.NoError(t, err)
	require.True(t, done)
	require.Zero(t, h.s.Outstanding())
}

// RELIABILITY, sr: "ACKs are numbered: an older one may set bits but declares no
// loss."
func TestOlderFrameSetsBitsOnly(t *testing.T) {
	h := newHand(t, NACK, 12, 1)
	h.env.DataLimit = 10
	h.poll(100, 100)
	h.after(handRTT)
	old := h.arrive(0, 2).frame()
	h.take(h.arrive(1).frame()).take(old)
	require.Empty(t, h.units(), "unit 1 has arrived, whatever the old frame says")

	old = h.arrive(5).frame()
	fresh := binaryACK(100, 3)
	h.take(fresh)
	require.Equal(t, 7, h.s.Outstanding())
	h.take(old)
	require.Equal(t, 6, h.s.Outstanding(), "the old frame still acknowledges unit 5")
	require.Empty(t, h.units())
}

// binaryACK is a frame that says nothing but a number and cum, both small.
func binaryACK(number, cum byte) []byte { return []byte{frameACK, number, cum, 0} }

// A peer's lie is an error, a strange frame never a panic.
func TestLiesAreErrors(t *testing.T) {
	h := newHand(t, NACK, 100, 2)
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
		"mark of a marker too high":  {frameACK, 1, 0, 1, 0, 33, 1},
		"more marks than channels":   {frameACK, 1, 0, 3, 0, 2, 1, 1, 2, 1, 0, 2, 1},
		"run beyond the transfer":    {frameACK, 1, 0, 0, 0, 0, 99, 2, 0},
		"unfinished section":         {frameACK, 1, 0, 0, 0, 0, 1},
		"three sections":             {frameACK, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"huge number":                {frameACK, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0},
	} {
		require.Error(t, h.s.OnControl(h.now, frame), name)
		require.Equal(t, 10, h.s.Outstanding(), "%s: nothing of a bad frame counts", name)
	}
	require.NoError(t, h.s.OnControl(h.now, []byte{frameACK, 1, 10, 1, 1, 18, 5, 0, 0, 80, 0, 0}))
	require.Zero(t, h.s.Outstanding())
}

// A sender that hears nothing doesn't repeat its window for ever.
func TestDarkness(t *testing.T) {
	for _, mode := range []Mode{RTO, NACK} {
		h := newHand(t, mode, 1000, 4)
		h.poll(1000, 1000)
		var polls, repeats int
		for end := h.now.Add(10 * units.Second); h.now < end; polls++ {
			h.out.Reset()
			h.out.Budget = 1000
			next, _, err := h.s.Poll(h.now, &h.out)
			require.NoError(t, err)
			for _, s := range h.out.Sends {
				if s.Unit.IsData() {
					repeats++
				}
				h.s.OnSent(h.now, []scheme.Sent{{Unit: s.Unit, Channel: max(s.Channel, 0)}})
			}
			require.Greater(t, next, h.now)
			h.now = min(next, end)
		}
		require.Less(t, repeats, 5000, "mode %d", mode)
		require.Greater(t, repeats, 100, "mode %d", mode)
		require.Less(t, polls, 2000, "mode %d", mode)
	}
}

// A first guess of the round trip that is far too small is corrected by the
// first frame.
func TestTimeoutIsNoShorterThanSeen(t *testing.T) {
	h := newHand(t, RTO, 100, 1)
	h.env.RTT, h.env.MinRTT = units.Microsecond, 0
	h.poll(1, 100)
	h.after(5 * handRTT).arrive(0).take(h.frame())
	h.poll(1, 100)
	h.after(5 * handRTT)
	require.Empty(t, h.poll(10, 0), "the channel is known to take as long")
	h.after(2 * handRTT)
	require.Len(t, h.poll(10, 0), 1)
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Mode: 2}, {AlphaMilli: -1}, {AlphaMilli: MaxAlphaMilli + 1}, {MinTimeout: -1}, {MinTimeout: MaxMinTimeout + 1}} {
		_, err := New(c)
		require.Error(t, err)
	}
	s, err := New(Config{})
	require.NoError(t, err)
	require.Equal(t, "sr", s.Name())
	require.Zero(t, s.ParityUnits(100))
	nack, err := New(Config{Mode: NACK})
	require.NoError(t, err)
	require.Equal(t, "sr-nack", nack.Name())

	ok := scheme.Env{Channels: 1, MaxFrame: minFrame}
	sender, err := s.NewSender(scheme.Transfer{Units: 1, Length: 1, UnitBytes: 1}, &ok)
	require.NoError(t, err)
	_, err = nack.NewReceiver(scheme.Transfer{Units: 1, Params: sender.Params()}, &ok)
	require.ErrorIs(t, err, errParams)
	for _, env := range []scheme.Env{{Channels: 0, MaxFrame: 100}, {Channels: maxChannels + 1, MaxFrame: 100}, {Channels: 1, MaxFrame: minFrame - 1}} {
		_, err = s.NewSender(scheme.Transfer{Units: 1}, &env)
		require.Error(t, err)
		_, err = s.NewReceiver(scheme.Transfer{Units: 1, Params: sender.Params()}, &env)
		require.Error(t, err)
	}
	for _, n := range []int{0, maxUnits + 1} {
		_, err = s.NewSender(scheme.Transfer{Units: n}, &ok)
		require.Error(t, err)
	}
}

// A repeat says whether its unit is known to be lost: later packets of the path have
// overtaken it, or there was just no answer.
func TestRepeatsSayWhetherLossIsProved(t *testing.T) {
	h := newHand(t, NACK, 4, 1)
	require.Equal(t, []int{0, 1, 2, 3}, h.units())
	h.arrive(1, 2).ack()
	sends := h.poll(1000, 1000)
	require.NotEmpty(t, sends)
	require.Equal(t, scheme.Send{Unit: 0, Channel: 0, Repeat: true}, sends[0])
	h.after(4 * handRTT)
	for _, s := range h.poll(1000, 1000) {
		require.Equal(t, s.Unit.IsData(), s.Unproved, "%v: no answer came", s)
	}
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
}
