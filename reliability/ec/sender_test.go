// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Paper, 4.1.2: "splits the message into L data submessages of k chunks each";
// "Each submessage is erasure coded with m parity chunks".
func TestParityFollowsItsSubmessage(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 10)
	var want []scheme.Unit
	want = append(append(want, dataUnits(0, 4)...), parityUnits(0, 2)...)
	want = append(append(want, dataUnits(4, 8)...), parityUnits(2, 4)...)
	want = append(append(want, dataUnits(8, 10)...), parityUnits(4, 6)...)

	require.Empty(t, h.poll(0, 100), "no budget, but jobs start")
	require.Len(t, h.jobs, 1+encodeAhead)
	h.code()
	require.Equal(t, want, h.send())
	require.Equal(t, 16, h.s.Outstanding())
	require.Equal(t, scheme.Stats{Sent: 16, Parity: 6, K: 4, M: 2}, h.s.Stats())
}

// Encoding doesn't hold data up: it goes on while data is sent (paper, 4.1.2).
func TestDataDoesNotWaitForEncoding(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 12)
	require.Len(t, h.poll(100, 100), 12)
	require.Len(t, h.jobs, 3)
	require.Equal(t, []scheme.Unit{0, 1, 2, 3}, h.jobs[0].Data)
	require.Equal(t, []int{0, 1}, h.jobs[0].Rows)
	require.Equal(t, parityUnits(0, 2), h.jobs[0].Parity)
	h.s.OnJob(h.now, h.jobs[1].ID)
	require.Empty(t, h.poll(100, 100), "in their order")
	h.s.OnJob(h.now, h.jobs[0].ID)
	require.Len(t, h.poll(100, 100), 4)
}

// At most maxJobs run, and only a little ahead of what is sent.
func TestEncodingIsBounded(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 2, M: 1}, 200)
	h.poll(0, 1000)
	require.Len(t, h.jobs, 1+encodeAhead)
	h.poll(1000, 1000)
	require.Len(t, h.jobs, maxJobs)
	h.code()
	h.poll(1000, 1000)
	require.Len(t, h.jobs, maxJobs)
}

func TestShortLastSubmessage(t *testing.T) {
	for _, tc := range []struct {
		code   Code
		n      int
		parity []scheme.Unit
		rows   int
	}{
		{XOR, 1, parityUnits(0, 1), 1},
		{MDS, 1, parityUnits(0, 3), 3},
		{XOR, 6, append(parityUnits(0, 3), parityUnits(3, 4)...), 1},
		{MDS, 6, parityUnits(0, 6), 3},
		{XOR, 9, parityUnits(0, 6), 3},
	} {
		h := newHand(t, Config{Code: tc.code, K: 5, M: 3}, tc.n)
		h.poll(0, 0)
		last := h.jobs[len(h.jobs)-1]
		require.Len(t, last.Rows, tc.rows)
		require.Equal(t, tc.rows, last.M, "row i covers position j with j mod M = i")
		var parity []scheme.Unit
		for _, u := range h.send() {
			if u.IsParity() {
				parity = append(parity, u)
			}
		}
		require.Equal(t, tc.parity, parity)
	}
}

// Nothing ever waits for memory that only decoding would free.
func TestNoRoomForParity(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 12)
	h.env.ParityLimit = 3
	h.poll(0, 0)
	h.code()
	require.Equal(t, append(append(dataUnits(0, 4), parityUnits(0, 2)...), dataUnits(4, 12)...), h.send())

	// Room in time is used, up to where it reaches.
	h.env.ParityLimit = 5
	h.after(handRTT / 4)
	require.Equal(t, parityUnits(2, 4), h.send())

	// Later the parity would come after the receiver has asked for repeats.
	require.Equal(t, h.s.window.at(2).sentAt.Add(handRTT/2), h.next, "wakes to give up")
	h.now = h.next
	h.send()
	require.Equal(t, units.Never, h.next)
	h.env.ParityLimit = 100
	require.Empty(t, h.send())
	require.Empty(t, h.jobs)

	// What the group lost is repeated by name.
	h.after(handRTT).say(2, []groupState{{2, 3, 3}}, span{9, 10})
	require.Equal(t, []scheme.Unit{9}, h.send())
	require.Contains(t, h.s.Stats().Explain, "1 of 3 groups")
}

// Groups that were injected together are given up together, and the statistics tell of each of them.
func TestAllWithoutParityAreCounted(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 20)
	h.env.ParityLimit = 2
	h.send()
	require.Empty(t, h.s.Stats().Explain, "there may be room in time")
	h.say(0, []groupState{{0, 4, 3}, {3, 3, 4}, {4, 3, 5}}) // groups 1 and 2 need none
	h.now = h.next
	h.send()
	require.Contains(t, h.s.Stats().Explain, "2 of 5 groups")
}

// Parity that coding delivers too late, or has no time for, is not sent.
func TestLateParityIsNotSent(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2, Beta: 0.25}, 80)
	require.Len(t, h.poll(100, 100), 80)
	h.after(handRTT / 4)
	h.code()
	require.Empty(t, h.send())
	require.Empty(t, h.s.Stats().Explain, "there was room")
}

func TestLimits(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 4, M: 2}, 100)
	h.env.DataLimit = 6
	require.Len(t, h.poll(3, 100), 3)
	require.Len(t, h.poll(100, 5), 2, "the window")
	require.Len(t, h.poll(100, 100), 1, "the receiver's buffers")
	h.code()
	require.Len(t, h.poll(100, 7), 1, "parity counts, too")
	require.Equal(t, 7, h.s.Outstanding())
	require.Len(t, h.poll(100, 100), 1)
}

// Progress frees the window before a group is recoverable.
func TestProgressFreesTheWindow(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 100, M: 10}, 300)
	require.Len(t, h.poll(1000, 50), 50)
	h.after(handRTT).say(0, []groupState{{0, 30, 1}})
	require.Equal(t, 20, h.s.Outstanding())
	h.say(0, []groupState{{0, 20, 1}})
	require.Equal(t, 20, h.s.Outstanding(), "counts only grow")
	require.Len(t, h.poll(1000, 50), 30)
	h.say(0, []groupState{{0, 80, 1}})
	require.Zero(t, h.s.Outstanding())
	h.code()
	require.Len(t, h.poll(1000, 1000), 220+30)
	h.say(1, []groupState{{1, 3, 3}})
	require.Equal(t, 107, h.s.Outstanding())
	h.say(3, nil)
	require.Zero(t, h.s.Outstanding())
	require.Zero(t, h.s.OutstandingParity())
	h.send()
	require.Equal(t, h.s.layout.groups, h.s.window.base, "every group is done with")
}

// What should have been reported by now no longer counts, but only when a frame has come.
func TestLossFreesTheWindow(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 10, M: 2}, 100)
	h.poll(1000, 1000)
	h.code()
	h.poll(1000, 1000)
	out := h.s.Outstanding()
	require.Greater(t, out, 100)
	h.after(10*units.Second).poll(0, 0)
	require.Equal(t, out, h.s.Outstanding(), "without acknowledgements a sender stops when its window is full")
	h.say(0, nil)
	require.Zero(t, h.s.Outstanding())
}

// Fallback: what the receiver names is sent again, once, on changing channels.
func TestRepeatsByName(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 10, M: 2}, 30)
	h.send()
	h.after(handRTT*3/2).say(0, []groupState{{0, 9, 2}, {2, 10, 3}}, span{3, 5}, span{29, 30})
	sends := h.poll(100, 100)
	require.Equal(t, []scheme.Send{{Unit: 3, Channel: 1, Repeat: true}, {Unit: 4, Channel: 2, Repeat: true}, {Unit: 29, Channel: 3, Repeat: true}}, sends)
	require.Equal(t, uint64(2), h.s.Stats().Fallbacks)
	require.Equal(t, uint64(3), h.s.Stats().Retransmitted)

	// The next frames may not know of the repeats yet.
	h.after(handRTT/2).say(0, []groupState{{0, 9, 2}, {2, 10, 3}}, span{3, 5}, span{29, 30})
	require.Empty(t, h.send())
	// A unit that was not among them is repeated all the same.
	h.say(0, []groupState{{0, 9, 2}, {2, 10, 3}}, span{3, 6}, span{29, 30})
	require.Equal(t, []scheme.Unit{5}, h.send())
	// Later frames know: it was lost again.
	h.after(handRTT).say(0, []groupState{{0, 10, 3}}, span{4, 5})
	require.Equal(t, []scheme.Unit{4}, h.send())
	h.after(handRTT).say(3, nil)
	require.Zero(t, h.s.Outstanding())
	require.Zero(t, h.s.Stats().Spurious)
}

// Conn doesn't send a repeat whose message the receiver has completed meanwhile, because what it repeats has come late, and
// reports no such transmission. The group's other repeats must not wait for it.
func TestRepeatOfAMessageThatIsComplete(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 10, M: 2}, 10)
	h.send()
	h.after(handRTT*3/2).say(0, []groupState{{0, 8, 1}}, span{3, 5})
	h.out.Reset()
	h.out.Budget, h.out.Window = 100, 100
	_, err := h.s.Poll(h.now, &h.out)
	require.NoError(t, err)
	require.Len(t, h.out.Sends, 2)
	h.s.OnSent(h.now, []scheme.Sent{{Unit: 4, Channel: 2}}) // unit 3 was dropped

	h.after(handRTT/2).say(0, []groupState{{0, 9, 1}}, span{4, 5})
	require.Empty(t, h.send(), "the frame can't know of the repeat")
	h.after(handRTT).say(0, []groupState{{0, 9, 1}}, span{4, 5})
	require.Equal(t, []scheme.Unit{4}, h.send(), "it was lost")
}

func TestSpuriousRepeatsAreCounted(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 10, M: 2}, 10)
	h.send()
	h.after(handRTT*3/2).say(0, []groupState{{0, 8, 1}}, span{3, 5})
	require.Len(t, h.send(), 2)
	h.after(handRTT/10).say(1, nil)
	require.Equal(t, uint64(2), h.s.Stats().Spurious)
}

// What is asked for is not under way, until it is repeated; and what waits to be repeated is not when the group is recoverable.
func TestRepeatsTakeTheWindow(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 10, M: 2}, 20)
	h.send()
	h.after(handRTT*9/8).say(0, []groupState{{0, 8, 1}, {1, 9, 2}}, span{3, 5}, span{12, 13})
	require.Equal(t, 12-8-2+12-9-1, h.s.Outstanding())
	h.say(0, []groupState{{0, 8, 2}})
	require.Equal(t, []scheme.Unit{3, 4}, h.send())
	require.Equal(t, 12-8, h.s.Outstanding())
}

// What is reported of a group when it is recoverable says nothing of the group that has its place in the window by then.
func TestReportsOutliveTheirGroup(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 2, M: 1}, 40)
	for range minWindow - 1 {
		h.poll(2, 1000)
		h.s.OnJob(h.now, uint32(h.s.groupsSent()))
		h.say(h.s.groupsSent(), nil)
	}
	group := h.s.window.at(minWindow)
	require.Same(t, h.s.window.at(0), group)
	require.Equal(t, parityCoding, group.state)
	before := *group
	h.s.OnJob(h.now, 0)
	h.s.OnSent(h.now+1, []scheme.Sent{{Unit: 0}, {Unit: scheme.Parity}})
	require.Equal(t, before, *group)
	h.s.OnJob(h.now, minWindow)
	require.Equal(t, parityReady, group.state)
}

// Parity of a group that is recoverable is not sent.
func TestParityOfRecoverableGroup(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 12)
	h.poll(8, 100)
	h.code()
	h.say(0, []groupState{{0, 3, 2}})
	require.Equal(t, append(append(parityUnits(0, 2), dataUnits(8, 12)...), parityUnits(4, 6)...), h.send())
}

// Repeats go out even when the window is full, and before anything new.
func TestRepeatsComeFirst(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 1}, 100)
	h.poll(10, 10)
	h.after(2*handRTT).say(0, []groupState{{0, 3, 1}}, span{0, 1})
	sends := h.poll(3, 2)
	require.Equal(t, scheme.Unit(0), sends[0].Unit)
	require.True(t, sends[0].Repeat)
	h.after(2*handRTT).say(0, []groupState{{0, 3, 1}}, span{0, 4})
	require.Len(t, h.poll(10, 0), 4)
}

// What is in flight, or has not been sent, is not repeated.
func TestPrematureAsksAreIgnored(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 1}, 100)
	h.poll(6, 100)
	h.after(handRTT/2).say(0, nil, span{0, 100})
	require.Empty(t, h.poll(100, 0))
	h.after(handRTT).say(0, nil, span{0, 100})
	sends := h.poll(100, 0)
	require.Len(t, sends, 6, "of a hundred only six have been sent")
}

// An older frame settles groups but asks for nothing and ages nothing.
func TestOldFrames(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 1}, 12)
	h.send()
	old := h.frame(3, 1, []groupState{{1, 2, 3}}, span{4, 6})
	h.after(2 * handRTT).onFrame(h.frame(4, 0, []groupState{{0, 4, 1}, {1, 2, 2}}))
	h.onFrame(old)
	require.Empty(t, h.send())
	require.Equal(t, 1, h.s.window.base)
	require.True(t, h.s.window.at(2).settled)
}

func TestViolationsFailTheTransfer(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 1}, 12)
	h.poll(6, 100)
	for name, frame := range map[string][]byte{
		"cumulative":        h.frame(1, 2, nil),
		"ahead":             h.frame(1, 0, []groupState{{0, 0, 2}}),
		"too many units":    h.frame(1, 1, []groupState{{1, 3, 2}}),
		"of nothing sent":   h.frame(1, 1, []groupState{{1, 2, 2}, {2, 1, 3}}),
		"no such group":     h.frame(1, 1, []groupState{{1, 2, 2}, {2, 0, 3}, {3, 0, 4}}),
		"cut there":         h.frame(1, 1, []groupState{{1, 2, 2}, {2, 0, 3}, {3, 0, 4}})[:9],
		"beyond all groups": h.frame(1, 4, nil),
		"asks for too much": h.frame(1, 0, nil, span{0, 13}),
		"asks for nothing":  append(h.frame(1, 0, nil), 1, 0),
		"cut":               h.frame(1, 0, nil, span{0, 3})[:6],
		"empty":             nil,
		"unknown":           {2, 1, 0, 0, 0},
	} {
		require.Error(t, h.s.OnControl(h.now, frame), name)
	}
	require.NoError(t, h.s.OnControl(h.now, h.frame(1, 0, []groupState{{0, 4, 1}, {1, 2, 2}, {2, 0, 3}}, span{0, 12})))
}
