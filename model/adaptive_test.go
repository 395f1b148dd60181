// SPDX-License-Identifier: Apache-2.0

// Long single-threaded statistics: the race detector would only slow them down.
//go:build !race

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

// The plan has the fewest parity units whose probability of failing is within epsilon.
func TestParityIsMinimal(t *testing.T) {
	a := Adaptive{}.defaults()
	for _, n := range []int64{1, 2, 10, 100, 224, 225, 2048, 20000} {
		for _, p := range []UnitDrop{1e-6, 1e-4, 1e-3, 1e-2, 3e-2} {
			groups, k, m := a.parity(n, lossLaw{drop: float64(p)})
			require.Equal(t, (n+k-1)/k, groups)
			require.LessOrEqual(t, k, int64(maxTailGroup))
			require.LessOrEqual(t, k+m, int64(MaxGroup))
			require.LessOrEqual(t, m, max(3, (k+2)/3))
			require.LessOrEqual(t, float64(groups)*above(k+m, m, float64(p)), a.Epsilon, "n=%d p=%g", n, p)
			if m > 0 {
				require.Greater(t, float64(groups)*above(k+m-1, m-1, float64(p)), a.Epsilon, "n=%d p=%g", n, p)
			}
		}
	}
	_, k, m := a.parity(2, lossLaw{drop: 1e-2})
	require.Equal(t, [2]int64{2, 2}, [2]int64{k, m}, "two units need m = 2 at 1e-2")
	groups, k, m := a.parity(20000, lossLaw{drop: 0.5})
	require.Equal(t, [3]int64{105, 191, 64}, [3]int64{groups, k, m}, "out of reach: the largest groups, all parity")
}

// The tail, its parity and the repeats in it last as long as it takes to repeat a unit.
func TestTailLastsOneReaction(t *testing.T) {
	for _, p := range []UnitDrop{0, 1e-3, 1e-2, 1e-1} {
		tr := paperLink(8*units.GiB, p)
		c, err := Adaptive{}.Choose(tr)
		require.NoError(t, err)
		require.Equal(t, tr.Units(), c.Body+c.Tail)
		sent := float64(c.Tail)*(1+float64(p)) + float64(c.Groups*c.M)
		require.InEpsilon(t, 1.0625*tr.rtt(), sent*tr.inject(), 0.01, "p=%g", p)
	}
	c, err := Adaptive{}.Choose(paperLink(128*units.MiB, 1e-3))
	require.NoError(t, err)
	require.EqualValues(t, 0, c.Body, "a message shorter than an RTT is all tail")
}

// What a reference model of adaptive gives, run apart from this one: times over the lossless ideal at 400 Gbit/s, 25 ms,
// 64 KiB units, for 128 KiB to 8 GiB, control frames lost like units.
func TestAdaptiveReferenceNumbers(t *testing.T) {
	for _, c := range []struct {
		drop      UnitDrop
		avg, p999 float64
	}{{1e-6, 1.010, 1.02}, {1e-5, 1.010, 1.02}, {1e-4, 1.010, 1.02}, {1e-3, 1.010, 1.02}, {1e-2, 1.027, 1.035}, {3e-2, 1.05, 1.056}} {
		for _, size := range []units.Bytes{128 * units.KiB, units.MiB, 16 * units.MiB, 128 * units.MiB, units.GiB, 8 * units.GiB} {
			tr := paperLink(size, c.drop)
			tr.Control = PacketDrop(c.drop)
			o := Options{Seed: 5, Samples: 10_000}
			if float64(tr.Units())*float64(c.drop) > 1000 {
				o.Samples = 3000
			}
			r, err := Simulate(Adaptive{}, tr, o)
			require.NoError(t, err)
			avg, p999 := Prediction{Adaptive{}, tr, r}.Slowdown()
			require.LessOrEqual(t, avg, c.avg, "%v p=%g", size, c.drop)
			require.LessOrEqual(t, p999, c.p999, "%v p=%g", size, c.drop)
		}
	}
}

// Below 3e-2 the scheme is never worse than the better of sr-nack and ec by more than 2 %.
func TestAdaptiveIsNeverMuchWorse(t *testing.T) {
	for _, drop := range []UnitDrop{0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2} {
		for size := 128 * units.KiB; size <= 64*units.GiB; size *= 8 {
			tr := paperLink(size, drop)
			mean := func(s Scheme) float64 {
				m, err := Mean(s, tr)
				require.NoError(t, err)
				return float64(m)
			}
			others := min(mean(NACK()), mean(EC{K: 32, M: 8, Beta: 0.5}), mean(EC{Code: XOR, K: 32, M: 8, Beta: 0.5}))
			require.LessOrEqual(t, mean(Adaptive{}), 1.02*others, "%v p=%g", size, drop)
		}
	}
}

// A transfer fails to decode at first with probability epsilon at most, and never hangs when it does.
func TestAdaptiveRepairs(t *testing.T) {
	tr := paperLink(16*units.MiB, 1e-2)
	const n = 100_000
	r, err := Simulate(Adaptive{}, tr, Options{Samples: n, Seed: 2})
	require.NoError(t, err)
	failed := 0
	for _, v := range r.sorted {
		if v > tr.rtt()*1.9 {
			failed++
		}
	}
	require.LessOrEqual(t, failed, 26, "more than epsilon of %d, five standard deviations allowed", n)
	require.Less(t, r.sorted[n-1], 3.2*tr.rtt(), "one repair round is enough but for another 1e-4")

	tr.Drop = 0.9
	r, err = Simulate(Adaptive{}, tr, Options{Samples: 100, Seed: 2})
	require.NoError(t, err)
	require.Greater(t, r.sorted[0], 2*tr.rtt(), "beyond the limit of parity there is always a repair")
	require.Less(t, r.sorted[99], 40*tr.rtt())
}

// The memory of a sample is bounded, whatever fits into a round trip.
func TestGroupsAreBounded(t *testing.T) {
	tr := Transfer{Rate: MaxRate, RTT: MaxRTT, Size: MaxSize, Unit: 4 * units.KiB, Drop: 1e-9}
	_, err := Simulate(Adaptive{}, tr, Options{Samples: 1})
	require.ErrorIs(t, err, ErrRange)
	require.ErrorContains(t, err, "use larger units")
	tr.Unit = units.MiB
	_, err = Adaptive{}.Choose(tr)
	require.NoError(t, err)
}
