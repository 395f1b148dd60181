// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func TestRingWithoutLossIsIdeal(t *testing.T) {
	tr := paperLink(128*units.MiB, 0)
	r := Ring{4, SR{Alpha: 2}}
	got, err := r.Simulate(tr, Options{Samples: 10})
	require.NoError(t, err)
	ideal, err := r.Ideal(tr)
	require.NoError(t, err)
	require.InDelta(t, float64(ideal), float64(got.Quantile(1).Value), 10)
	// Six stages, each of 32 MiB at 400 Gbit/s and 25 ms.
	require.InDelta(t, 6*25.671e6, float64(ideal), 1e3)
}

// Appendix C: the expected cost is at least that of a stage times the number of stages.
func TestRingIsAboveItsBound(t *testing.T) {
	for _, n := range []int{2, 4, 16} {
		for _, p := range []UnitDrop{0, 1e-4, 1e-2} {
			for _, s := range []Scheme{SR{Alpha: 2}, EC{K: 32, M: 8, Beta: 0.5}, Adaptive{}} {
				r, tr := Ring{n, s}, paperLink(128*units.MiB, p)
				got, err := r.Simulate(tr, Options{Samples: 2000})
				require.NoError(t, err)
				bound, err := r.Bound(tr)
				require.NoError(t, err)
				require.GreaterOrEqual(t, float64(got.Mean().High), 0.999*float64(bound), "N=%d p=%g %s", n, p, s.Name())
			}
		}
	}
}

// With two datacenters and writes that take 1 or 2 in turn, the recurrence by hand.
func TestRingRecurrence(t *testing.T) {
	times := []float64{1, 2, 5, 1, 1, 1}
	i := 0
	write := func(*source) float64 { i++; return times[i-1] }
	got := Ring{Datacenters: 2}.sample(write, nil, make([]float64, 2), make([]float64, 2))
	require.Equal(t, 7.0, got) // stage 1: 1 and 2; stage 2: both start at 2, end at 7 and 3
	i = 0
	times = []float64{1, 1, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	got = Ring{Datacenters: 3}.sample(write, nil, make([]float64, 3), make([]float64, 3))
	require.Equal(t, 12.0, got, "datacenter 2 is late by 8 and passes it on each stage")
}

// What takes longer than a Duration can say is refused, and bounds don't wrap around.
func TestRingOfCenturies(t *testing.T) {
	tr := Transfer{Rate: MinRate, RTT: MaxRTT, Size: MinRate.Bytes(MaxInjection), Unit: units.MiB, Drop: MaxDrop}
	r := Ring{Datacenters: MaxDatacenters, Scheme: SR{Alpha: MaxAlpha}}
	_, err := r.Ideal(tr)
	require.ErrorIs(t, err, ErrRange, "nearly twice a year")
	tr.Size /= 2
	ideal, err := r.Ideal(tr)
	require.NoError(t, err)
	bound, err := r.Bound(tr)
	require.NoError(t, err)
	require.Greater(t, bound, ideal)
}
