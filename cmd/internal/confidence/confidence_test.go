// SPDX-License-Identifier: Apache-2.0

package confidence

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStudent(t *testing.T) {
	for degrees, want := range map[float64]float64{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 15: 2.131, 30: 2.042, 1e6: 1.960} {
		require.InEpsilon(t, want, Student(degrees), 2e-3, "%g degrees of freedom", degrees)
	}
}

// Of five values 1 to 5 the deviation is 1.5811, so that half of the interval is 2.776 · 1.5811 / √5; equal values leave none.
func TestMean(t *testing.T) {
	mean, half := Mean([]float64{5, 1, 4, 2, 3})
	require.InDelta(t, 3, mean, 1e-12)
	require.InDelta(t, 1.963, half, 2e-3)
	mean, half = Mean([]float64{-7, -7})
	require.InDelta(t, -7, mean, 1e-12)
	require.Zero(t, half)
}

// Of 20 000 samples of five from a normal distribution, 95 % have its mean within their intervals.
func TestMeanCovers(t *testing.T) {
	const seed, samples = 7, 20_000
	draw := rand.New(rand.NewPCG(seed, seed))
	within := 0
	for range samples {
		var v []float64
		for range 5 {
			v = append(v, 10+3*draw.NormFloat64())
		}
		if mean, half := Mean(v); mean-half <= 10 && 10 <= mean+half {
			within++
		}
	}
	require.InDelta(t, 0.95, float64(within)/samples, 0.006)
}
