// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Without loss the receiver never waits for parity.
func TestNoLossNoParityNeeded(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 10)
	h.look()
	require.False(t, h.done)
	h.arrive(dataUnits(0, 10)...).look()
	require.True(t, h.done)
	require.Empty(t, h.jobs)
}

// A group is decoded as soon as it can be, and not when the transfer ends.
func TestGroupsAreDecodedAtOnce(t *testing.T) {
	for _, code := range []Code{XOR, MDS} {
		h := newHand(t, Config{Code: code, K: 6, M: 3}, 18)
		h.arrive(0, 1, 3, 5).look()
		h.arrive(parityUnits(0, 1)...).look()
		require.Empty(t, h.jobs, "two are missing")
		h.arrive(parityUnits(1, 3)...).look()
		require.Len(t, h.jobs, 1)
		j := h.jobs[0]
		require.Equal(t, scheme.Decode, j.Kind)
		require.Equal(t, []int{2, 4}, j.Missing)
		require.Equal(t, dataUnits(0, 6), j.Data)
		require.Equal(t, 3, j.M)
		if code == XOR {
			require.Equal(t, []int{2, 1}, j.Rows, "the rows of the missing units")
			require.Equal(t, []scheme.Unit{scheme.Parity | 2, scheme.Parity | 1}, j.Parity)
		} else {
			require.Equal(t, []int{0, 1}, j.Rows, "any")
		}
		require.Zero(t, h.parityFree, "the job reads parity")
		h.code()
		h.look()
		require.Equal(t, 3, h.parityFree)
		require.Equal(t, uint64(2), h.r.Stats().Recovered)
	}
}

// Paper, 4.1.2: "sends a positive ACK once enough chunks are available to recover
// all data submessages".
func TestPositiveACKWhenRecoverable(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 8)
	h.arrive(0, 1, 2, 3, 4, 5).look()
	h.after(units.Microsecond).arrive(parityUnits(2, 3)...).look()
	h.after(50 * units.Microsecond)
	require.Nil(t, h.reported(), "not in the interval")
	h.arrive(parityUnits(3, 4)...)
	s := h.reported()
	require.NotNil(t, s, "at once")
	require.Equal(t, 2, s.cum)
	require.False(t, h.done, "decoding isn't over")
	h.code()
	h.look()
	require.True(t, h.done)
}

// The receiver reports its progress as that of sr does: numbered states, one for each interval in which
// something arrived, rarer and rarer in silence.
func TestProgressIsReported(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 4000)
	lost := 0
	frames := 0
	for i := 0; i < 3000; i++ {
		if i%40 == 13 {
			lost++
		} else {
			h.arrive(scheme.Unit(i))
		}
		h.after(unitTime)
		if s := h.reported(); s != nil {
			frames++
			require.Equal(t, uint64(frames), s.number)
			if i < 13 {
				continue
			}
			require.Equal(t, 3, s.cum, "the first loss")
			require.Equal(t, groupState{3, 3, 13}, s.groups[0])
			require.Equal(t, i/4+1, s.groups[len(s.groups)-1].next)
		}
	}
	require.InDelta(t, int(3000*unitTime/h.env.AckInterval), frames, 1)
}

// fallbackAfter is how long after the last arrival the receiver asks.
func (h *hand) fallbackAfter(t *testing.T, last units.Instant) units.Duration {
	t.Helper()
	require.NotEmpty(t, h.asks(units.Minute))
	return h.now.Sub(last)
}

// The fallback timeout is β·RTT after the expected arrival of the submessage's last
// unit, parity included.
func TestFallbackTimeout(t *testing.T) {
	for _, beta := range []float64{0.5, 1, 3} {
		fto := units.Duration(beta * float64(handRTT))

		// The expected arrival follows from the paced rate and from whichever came first, START or a unit.
		// Here nothing but START arrives.
		h := newHand(t, Config{Code: MDS, K: 4, M: 2, Beta: beta}, 4)
		begun := h.now
		require.Equal(t, fto+6*unitTime, h.fallbackAfter(t, begun), "START: units 0 to 5 take six units' time")

		// A unit was earlier than START.
		h = newHand(t, Config{Code: MDS, K: 4, M: 2, Beta: beta}, 4)
		begun = h.now
		h.arrive(0).after(units.Millisecond)
		h.look()
		require.Equal(t, fto+5*unitTime, h.fallbackAfter(t, begun.Add(units.Millisecond)), "unit 0, noticed now")

		// The last unit arrives when it is due: β·RTT from there.
		h = newHand(t, Config{Code: MDS, K: 4, M: 2, Beta: beta}, 4)
		h.look()
		h.after(6 * unitTime).arrive(scheme.Parity | 1)
		begun = h.now
		require.Equal(t, fto, h.fallbackAfter(t, begun))
		require.Equal(t, uint64(1), h.r.Stats().Fallbacks)

		// It is overtaken by the next submessage.
		h = newHand(t, Config{Code: MDS, K: 4, M: 2, Beta: beta}, 8)
		h.arrive(0, 1, 2).look()
		h.after(20 * unitTime).arrive(4)
		begun = h.now
		require.Equal(t, fto, h.fallbackAfter(t, begun))
	}
}

// A sender that pauses is not taken for a loss of what it has not sent: the
// expectation starts again with each newer unit.
func TestExpectationFollowsTheSender(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 8)
	for i := range 8 {
		h.arrive(scheme.Unit(i))
		require.Empty(t, h.asks(handRTT/2), "unit %d", i)
		if i == 3 {
			h.arrive(parityUnits(0, 2)...)
		}
	}
	require.True(t, h.done)
}

// What the receiver asks for are exactly the units that decoding lacks.
func TestNACKNamesWhatIsLacking(t *testing.T) {
	for name, tc := range map[string]struct {
		config  Config
		n       int
		arrived []scheme.Unit
		want    []span
	}{
		"MDS, one parity unit left":   {Config{Code: MDS, K: 6, M: 2}, 6, append(dataUnits(3, 6), scheme.Parity|1), []span{{0, 2}}},
		"MDS, no parity":              {Config{Code: MDS, K: 6, M: 2}, 6, []scheme.Unit{1, 3, 5}, []span{{0, 1}, {2, 3}, {4, 5}}},
		"MDS, only parity":            {Config{Code: MDS, K: 4, M: 4}, 4, parityUnits(0, 3), []span{{0, 1}}},
		"XOR, two of a row":           {Config{Code: XOR, K: 6, M: 2}, 6, append([]scheme.Unit{0, 1, 3, 5}, parityUnits(0, 2)...), []span{{2, 3}}},
		"XOR, parity lost":            {Config{Code: XOR, K: 6, M: 2}, 6, append([]scheme.Unit{0, 1, 2, 4, 5}, scheme.Parity), []span{{3, 4}}},
		"XOR, one row is recoverable": {Config{Code: XOR, K: 6, M: 2}, 6, append([]scheme.Unit{2, 4}, parityUnits(0, 2)...), []span{{1, 2}, {3, 4}}},
		"short last submessage":       {Config{Code: XOR, K: 6, M: 3}, 8, append(dataUnits(0, 6), scheme.Parity|3), []span{{7, 8}}},
		"runs join across groups":     {Config{Code: MDS, K: 4, M: 1}, 12, []scheme.Unit{0, scheme.Parity | 2}, []span{{1, 11}}},
		"whole submessages":           {Config{Code: MDS, K: 6, M: 2, WholeSubmessage: true}, 18, append(append(dataUnits(0, 6), 7, 12, 13, 14), scheme.Parity|5), []span{{6, 18}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t, tc.config, tc.n)
			h.arrive(tc.arrived...)
			require.Equal(t, tc.want, h.asks(units.Minute))
		})
	}
}

// The paper's receiver asks for whole submessages; what is then lost again is
// named, or else a short queue in the network could drop the same units each time.
func TestWholeSubmessageOnlyOnce(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 6, M: 2, WholeSubmessage: true}, 6)
	h.arrive(0, 1)
	for range asksTogether {
		require.Equal(t, []span{{0, 6}}, h.asks(units.Minute))
		h.after(1)
	}
	h.arrive(3)
	require.Equal(t, []span{{2, 3}, {4, 6}}, h.asks(units.Minute))
}

// A lost frame costs a fraction of a round trip, a lost repeat a round trip and
// β·RTT more, then nothing is left untried for a while, and a dead network costs little.
func TestAskingIsRepeated(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 1}, 4)
	h.arrive(0, 1)
	var at []units.Instant
	for len(at) < asksTogether+steadyAsks+27 {
		require.Equal(t, []span{{2, 4}}, h.asks(2*units.Second))
		at = append(at, h.now)
		h.after(1)
	}
	pauses := make([]units.Duration, len(at)-1)
	for i := range pauses {
		pauses[i] = at[i+1].Sub(at[i])
	}
	near := float64(handRTT / 16) // what repeats the state besides
	for i, pause := range []units.Duration{handRTT / 16, handRTT / 16, handRTT * 3 / 2, handRTT / 32, handRTT / 32} {
		require.InDelta(t, int64(pause), int64(pauses[i]), near, "pause %d", i)
	}
	require.Less(t, at[asksTogether+steadyAsks-1].Sub(at[0]), 20*handRTT, "so many within a few round trips")
	require.InDelta(t, int64(16*handRTT*3/2), int64(slices.Max(pauses)), near)
	require.Equal(t, uint64(1), h.r.Stats().Timeouts)
	require.Equal(t, uint64(1), h.r.Stats().Fallbacks)
}

// A frame is not longer than Env.MaxFrame. What one has no room for comes in the next.
func TestManyGroupsLacking(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 10, M: 1}, 5000)
	h.env.MaxFrame = minFrame
	for u := range 5000 {
		if u%10 != 3 && u%10 != 7 {
			h.arrive(scheme.Unit(u))
		}
	}
	asked := map[int]bool{}
	described := map[int]bool{}
	for deadline := h.now.Add(10 * units.Second); h.now < deadline && (len(asked) < 1000 || len(described) < 500); h.now = h.next {
		s := h.reported()
		if s == nil {
			continue
		}
		for _, w := range s.wants {
			for u := w.from; u < w.to; u++ {
				require.Contains(t, []int{3, 7}, u%10)
				asked[u] = true
			}
		}
		for _, g := range s.groups {
			require.Equal(t, 8, g.have)
			described[g.group] = true
		}
	}
	require.Len(t, asked, 1000)
	require.Len(t, described, 500)
}

// Parity memory is given back in order, as far as nothing below is in use.
func TestParityIsFreedInOrder(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 4, M: 2}, 16)
	h.arrive(dataUnits(4, 12)...).look()
	require.Zero(t, h.parityFree)
	h.arrive(dataUnits(0, 3)...).look()
	require.Zero(t, h.parityFree)
	h.arrive(3).look()
	require.Equal(t, 6, h.parityFree)
}

// The mark of a repeat hides those of what came before it. The bitmap shows them.
func TestRepeatsHideWhatIsNew(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 40)
	h.arrive(1, 2, 3).look()
	for _, u := range []scheme.Unit{5, 9} {
		h.board.present[u] = true
		h.arrive(0).look()
		p, _ := h.r.layout.position(u)
		require.Equal(t, p, h.r.pace.newest)
	}
}

// How long a unit takes is measured over the last ones, and is not shorter than the sender paces, nor very much longer.
func TestPaceIsMeasured(t *testing.T) {
	for _, tc := range []struct{ paced, each, want units.Duration }{{10, 5, 10}, {10, 20, 20}, {10, 200, 80}, {0, 200, 200}} {
		p := pace{unit: tc.paced, paced: tc.paced, newest: -1}
		now := units.Instant(1000)
		p.begin(now)
		for q := range position(2 * measureUnits) {
			require.True(t, q > measureUnits-2 || p.unit == tc.paced, "too few to tell")
			if now = now.Add(30); q >= measureUnits {
				now = now.Add(tc.each - 30)
			}
			p.reached(now, q)
		}
		require.Equal(t, tc.want, p.unit, "%v", tc)
	}
}

// No more than maxJobs run; what waits is recoverable all the same.
func TestDecodingIsBounded(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 2, M: 1}, 2*maxJobs+10)
	for g := range maxJobs + 5 {
		h.arrive(scheme.Unit(2*g), scheme.Parity|scheme.Unit(g))
	}
	h.after(units.Millisecond)
	s := h.reported()
	require.Len(t, h.jobs, maxJobs)
	require.Equal(t, maxJobs+5, s.cum)
	// A late original saves the decoding of a group that waits.
	h.arrive(scheme.Unit(2*maxJobs + 1))
	h.code()
	h.look()
	require.Len(t, h.jobs, 4)
	h.code()
	h.look()
	require.True(t, h.done)
}

// A mark that names parity which the transfer doesn't have moves no position.
func TestStrangeMarks(t *testing.T) {
	h := newHand(t, Config{Code: XOR, K: 4, M: 2}, 5)
	h.arrive(parityUnits(3, 9)...).arrive(scheme.Probe | 3)
	h.look()
	require.Equal(t, position(-1), h.r.pace.newest)
	require.ErrorIs(t, h.r.OnControl(h.now, []byte{1}), errNoFrames)
	h.r.OnJob(h.now, 7)
	h.s.OnJob(h.now, 7)
}

// What was asked for in vain is asked for again once a ping that was sent since has been answered, not more often than each 250 ms, or round
// if that is longer, and not later than otherwise.
func TestAnswerEndsBackoff(t *testing.T) {
	h := newHand(t, Config{Code: MDS, K: 4, M: 2}, 8)
	last := units.Instant(units.Second)
	due := last.Add(maxPause)
	require.Equal(t, due, h.r.retryAt(due, last))
	h.r.env.Answered = last
	require.Equal(t, due, h.r.retryAt(due, last))
	h.r.env.Answered = last + 1
	require.Equal(t, last.Add(250*units.Millisecond), h.r.retryAt(due, last))
	require.Equal(t, last.Add(units.Millisecond), h.r.retryAt(last.Add(units.Millisecond), last))
	h.r.env.RTT = 400 * units.Millisecond
	require.Equal(t, last.Add(h.r.round()), h.r.retryAt(due, last))
	require.Greater(t, h.r.round(), 400*units.Millisecond)
}
