// SPDX-License-Identifier: Apache-2.0

// Long single-threaded statistics: the race detector would only slow them down.
//go:build !race

package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

// requireSame compares the distributions of two sets of samples: averages within five standard
// errors, and each decile and the 99th percentile at a rank within five standard deviations.
func requireSame(t *testing.T, want []float64, got *Result, msg string) {
	t.Helper()
	slices.Sort(want)
	ref := newResult(want)
	se := math.Hypot(ref.sd/math.Sqrt(float64(len(want))), got.sd/math.Sqrt(float64(got.Samples())))
	require.InDelta(t, ref.mean, got.mean, 5*se+1, "%s: average", msg)
	for _, q := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99} {
		slack := 5 * math.Sqrt(q*(1-q)*(1/float64(len(want))+1/float64(got.Samples())))
		v := ref.Quantile(q).Value
		require.LessOrEqual(t, got.Quantile(q-slack).Value, v+2, "%s: quantile %g", msg, q)
		require.GreaterOrEqual(t, got.Quantile(q+slack).Value, v-2, "%s: quantile %g", msg, q)
	}
}

func TestSRAgainstNaive(t *testing.T) {
	for _, c := range []struct {
		units units.Bytes
		rtt   units.Duration
		drop  UnitDrop
	}{
		{1, units.Millisecond, 0.3}, {2, units.Millisecond, 0.1}, {20, units.Millisecond, 0.1}, {20, 5 * units.Microsecond, 0.4},
		{200, 10 * units.Microsecond, 0.2}, {200, 100 * units.Microsecond, 0.5}, {300, 50 * units.Microsecond, 0.02},
	} {
		tr := paperLink(c.units*64*units.KiB, c.drop)
		tr.RTT = c.rtt
		for _, alpha := range []float64{0, 0.7, 2} {
			rnd := rand.New(rand.NewPCG(1, 2))
			const n = 4000
			slow, overlap := make([]float64, n), make([]float64, n)
			for i := range n {
				slow[i] = naiveSR(tr, (1+alpha)*tr.rtt(), rnd) + tr.rtt()
				overlap[i] = naiveOverlap(tr, (1+alpha)*tr.rtt(), rnd) + tr.rtt()
			}
			got, err := Simulate(SR{Alpha: alpha}, tr, Options{Samples: 2 * n, Seed: 7})
			require.NoError(t, err)
			requireSame(t, slow, got, "serialized")
			got, err = Simulate(SR{Alpha: alpha, Overlap: true}, tr, Options{Samples: 2 * n, Seed: 7})
			require.NoError(t, err)
			requireSame(t, overlap, got, "overlapped")
		}
	}
}

// The last unit is short: without loss the completion time is the ideal to the nanosecond.
func TestLosslessIsIdeal(t *testing.T) {
	for _, size := range []units.Bytes{1, 1000, 64 * units.KiB, 64*units.KiB + 1, 10 * units.MiB, 10*units.MiB + 77} {
		tr := paperLink(size, 0)
		for _, s := range []Scheme{SR{Alpha: 2}, NACK(), SR{Overlap: true}, Adaptive{}} {
			r, err := Simulate(s, tr, Options{Samples: 10})
			require.NoError(t, err)
			mean, err := Mean(s, tr)
			require.NoError(t, err)
			require.InDelta(t, float64(tr.Ideal()), float64(r.Quantile(1).Value), 1, "%s %v", s.Name(), size)
			require.InDelta(t, float64(tr.Ideal()), float64(mean), 1, "%s %v", s.Name(), size)
		}
	}
}

// "In this 'large' message case, our derivation becomes a lower bound" (section 4.2.2).
func TestOverlapIsALowerBound(t *testing.T) {
	for _, size := range []units.Bytes{units.GiB, 8 * units.GiB, 64 * units.GiB} {
		tr := paperLink(size, 0.1)
		bound, err := Mean(SR{Alpha: 2, Overlap: true}, tr)
		require.NoError(t, err)
		real, err := Mean(SR{Alpha: 2}, tr)
		require.NoError(t, err)
		require.GreaterOrEqual(t, real, bound, size.String())
		if size == 64*units.GiB {
			require.InEpsilon(t, 1/(1-0.1), float64(real)/float64(bound), 0.05, "repeats take a tenth of the channel")
		}
	}
}
