// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Where switches trim, silence of less than eight round trips and of 100 ms repeats nothing; elsewhere three round trips do, or
// with path proof a little more than one.
func TestTimersAreCoarseWhereSwitchesTrim(t *testing.T) {
	for _, rule := range []Rule{Timeout, PathProof} {
		for _, trims := range []bool{false, true} {
			h := newHand(t, rule, 8, 1)
			h.env.Trims = trims
			require.Len(t, h.units(), 8)
			h.arrive(0, 1, 2, 3).after(handRTT).onFrame(h.frame())
			again := h.after(3 * handRTT).units()
			if !trims {
				require.Equal(t, []int{4, 5, 6, 7}, again)
				continue
			}
			require.Empty(t, again)
			require.Empty(t, h.after(5*handRTT).units())
			require.Equal(t, []int{4, 5, 6, 7}, h.after(2*handRTT).units())
		}
	}
}

// A probe that has passed the data of its channel with the headers proves nothing before they have had their time.
func TestProbesPassDataWhereSwitchesTrim(t *testing.T) {
	for _, trims := range []bool{false, true} {
		h := newHand(t, PathProof, 3, 1)
		h.env.Trims = trims
		*h.s.paths[0].estimate = estimate{srtt: 15 * units.Millisecond, rttvar: 5 * units.Millisecond, minRTT: handRTT, latestRTT: handRTT}
		h.poll(1000, 1000)
		h.after(minInterval).poll(1000, 1000)
		last := len(h.sends) - 1
		require.True(t, h.sends[last].Unit.IsProbe())
		h.arrive(last).after(handRTT).onFrame(h.frame())
		if !trims {
			require.Equal(t, []int{0, 1, 2}, h.units())
			continue
		}
		require.Empty(t, h.units())
		h.arrive(last).after(15 * units.Millisecond).onFrame(h.frame())
		require.Equal(t, []int{0, 1, 2}, h.units())
	}
}

// TestTrimmedAmongTheSuspected: a unit that was suspected to be lost when word came that it was trimmed is lost once.
func TestTrimmedAmongTheSuspected(t *testing.T) {
	h := suspect(t)
	require.Equal(t, 1, h.s.Outstanding())
	h.s.OnTrimmed(h.now, 1, 0)
	require.Zero(t, h.s.Outstanding())
	h.after(handRTT).onFrame([]byte{frameACK, 2, 1, 0, 0, 0, 1, 2, 0})
	require.Zero(t, h.s.Outstanding())
	require.Equal(t, []int{1}, h.units())
	require.Equal(t, scheme.Losses{Queue: 1}, h.s.Stats().Losses)
}

// TestTrimmedIsLostOnce: headers may come back twice, and what was sent behind the unit arrives while its repeat is under way, on the same
// channel, or on another with the same number there. None of it says anything about the repeat.
func TestTrimmedIsLostOnce(t *testing.T) {
	for _, c := range []struct{ channels, trimmed, arrives int }{{1, 1, 6}, {2, 6, 8}} {
		h := newHand(t, PathProof, 100, c.channels)
		h.env.DataLimit = 7
		require.Len(t, h.units(), 7)
		h.after(handRTT/2).s.OnTrimmed(h.now, scheme.Unit(c.trimmed), 1)
		require.Equal(t, 7, h.s.Outstanding(), "it went another way")
		for _, u := range []scheme.Unit{64, scheme.Parity | 2, scheme.Probe | 2} { // 64 would have the place of unit 0
			h.s.OnTrimmed(h.now, u, 0)
			require.Equal(t, 7, h.s.Outstanding(), "%x is no unit that was sent", u)
		}
		for range 2 {
			h.s.OnTrimmed(h.now, scheme.Unit(c.trimmed), 0)
			require.Equal(t, 6, h.s.Outstanding())
		}
		require.Equal(t, []int{c.trimmed}, h.units())
		h.env.DataLimit = 9
		require.Equal(t, []int{7, 8}, h.units())
		h.arrive(h.indexOf(scheme.Unit(c.arrives), 0)).after(handRTT * 3 / 4).onFrame(h.frame())
		require.NotContains(t, h.units(), c.trimmed)
	}
}
