// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func TestSameResultForAnyNumberOfThreads(t *testing.T) {
	tr := paperLink(16*units.MiB, 1e-2)
	tr.Control = 1e-2
	for _, s := range allSchemes {
		var want *Result
		for _, threads := range []int{1, 2, 3, 8} {
			got, err := Simulate(s, tr, Options{Samples: 1000, Seed: 42, Threads: threads})
			require.NoError(t, err)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%+v with %d threads", s, threads)
		}
		other, err := Simulate(s, tr, Options{Samples: 1000, Seed: 43})
		require.NoError(t, err)
		require.NotEqual(t, want, other, "another seed gives other samples")
	}
	a, err := Ring{4, NACK()}.Simulate(tr, Options{Samples: 500, Seed: 42, Threads: 1})
	require.NoError(t, err)
	b, err := Ring{4, NACK()}.Simulate(tr, Options{Samples: 500, Seed: 42, Threads: 4})
	require.NoError(t, err)
	require.Equal(t, a, b)
}

func TestGapIsGeometric(t *testing.T) {
	for _, p := range []float64{1e-6, 1e-3, 0.1, 0.5, 0.9} {
		src := newSource(Transfer{Drop: UnitDrop(p)})
		src.seed(1, 2)
		const n = 200_000
		sum, zero := 0.0, 0
		for range n {
			g := src.gap()
			sum += float64(g)
			if g == 0 {
				zero++
			}
		}
		mean, sd := (1-p)/p, math.Sqrt(1-p)/p
		require.InDelta(t, mean, sum/n, 5*sd/math.Sqrt(n), "p=%g", p)
		require.InDelta(t, p*n, float64(zero), 5*math.Sqrt(n*p*(1-p))+1, "p=%g", p)
	}
	require.EqualValues(t, endless, newSource(Transfer{}).gap())
}

func TestQuantiles(t *testing.T) {
	sorted := make([]float64, 1000)
	for i := range sorted {
		sorted[i] = float64(i + 1)
	}
	r := newResult(sorted)
	require.Equal(t, units.Duration(500), r.Quantile(0.5).Value)
	require.Equal(t, units.Duration(999), r.Quantile(0.999).Value)
	require.Equal(t, units.Duration(1), r.Quantile(0).Value)
	require.Equal(t, units.Duration(1000), r.Quantile(1).Value)
	require.Equal(t, units.Duration(1000), r.Quantile(0.999).High, "too few samples: ends at the largest")
	require.InDelta(t, 500.5, r.mean, 1e-9)
}

// The 95 % intervals contain the true value in about 95 of 100 runs.
func TestConfidenceIntervalsCover(t *testing.T) {
	tr := paperLink(16*units.MiB, 1e-2)
	truth, err := Simulate(SR{Alpha: 2}, tr, Options{Samples: 400_000, Seed: 999})
	require.NoError(t, err)
	const runs = 400
	var mean, p99 int
	for seed := range uint64(runs) {
		r, err := Simulate(SR{Alpha: 2}, tr, Options{Samples: 500, Seed: seed})
		require.NoError(t, err)
		if e := r.Mean(); e.Low <= truth.Mean().Value && truth.Mean().Value <= e.High {
			mean++
		}
		if e, v := r.Quantile(0.9), truth.Quantile(0.9).Value; e.Low <= v && v <= e.High {
			p99++
		}
	}
	// 95 % of 400 is 380 with standard deviation 4.4; quantile intervals are conservative.
	require.InDelta(t, 380, mean, 22)
	require.GreaterOrEqual(t, p99, 358)
}

// Control frames: START late delays only what is done earlier; the final acknowledgement delays all.
func TestControlLoss(t *testing.T) {
	tr := paperLink(64*units.KiB, 0)
	tr.Control = 0.5
	r, err := Simulate(SR{}, tr, Options{Samples: 50_000, Seed: 1})
	require.NoError(t, err)
	mean, err := Mean(SR{}, tr)
	require.NoError(t, err)
	require.InEpsilon(t, float64(r.Mean().Value), float64(mean), 0.01)
	space := tr.RTT / 64
	require.InDelta(t, float64(tr.Ideal()), float64(r.Quantile(0.2).Value), 2)
	require.InDelta(t, float64(tr.Ideal()+space), float64(r.Quantile(0.4).Value), float64(tr.inject()), "one copy lost")
	require.Equal(t, 2*float64(space)+tr.rtt(), copyAt(3, tr.rtt()))
	require.Equal(t, 40_000.0, copyAt(2, 1000), "at least 20 µs apart")
}
