// SPDX-License-Identifier: Apache-2.0

// Long single-threaded statistics: the race detector would only slow them down.
//go:build !race

package model

import (
	"fmt"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

// "The mean of 1000 samples from the stochastic model matches the analytical solution within 5%
// accuracy" (paper, section 5.1.1). Here over a grid of sizes, drop probabilities and links. The
// tolerance is 5 % of the average, or the sampling error where that is more.
func TestClosedFormAgreesWithSimulation(t *testing.T) {
	links := []Transfer{
		{Rate: 400 * units.Gbit, RTT: 25 * units.Millisecond, Unit: 64 * units.KiB},
		{Rate: units.Gbit, RTT: 100 * units.Millisecond, Unit: 4 * units.KiB},
		{Rate: 3200 * units.Gbit, RTT: 5 * units.Microsecond, Unit: 64 * units.KiB},
	}
	worst, points := 0.0, 0
	for _, link := range links {
		for size := 100 * units.KiB; size <= 8*units.GiB; size *= 9 {
			if size/link.Unit > 1<<17 {
				continue
			}
			for _, p := range []UnitDrop{1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3} {
				for _, s := range allSchemes {
					tr := link
					tr.Size, tr.Drop = size, p
					if s == (Scheme)(Adaptive{}) {
						tr.Control = PacketDrop(p)
					}
					o := Options{Seed: 11, Samples: 2000}
					if drops := float64(tr.Units()) * float64(p); drops > 100 {
						o.Samples = int(max(60, 1e5/drops)) // many drops average out within a sample
					}
					r, err := Simulate(s, tr, o)
					require.NoError(t, err)
					mean, err := Mean(s, tr)
					require.NoError(t, err)
					avg := r.Mean()
					allowed := max(0.05*float64(avg.Value), 2*float64(avg.High-avg.Value))
					off := float64(mean - avg.Value)
					require.InDelta(t, 0, off, allowed, "%+v %v p=%g %v: closed %v, simulated %v", s, size, p, link.Rate, mean, avg)
					worst = max(worst, max(off, -off)/float64(avg.Value))
					points++
				}
			}
		}
	}
	t.Logf("%d points, worst difference %.1f %%", points, 100*worst)
}

// With enough samples the two agree far better than 5 % where the model is not a fluid limit.
func TestClosedFormAgreesClosely(t *testing.T) {
	for _, p := range []UnitDrop{1e-3, 1e-2} {
		tr := paperLink(16*units.MiB, p)
		for _, s := range allSchemes {
			r, err := Simulate(s, tr, Options{Seed: 12, Samples: 200_000})
			require.NoError(t, err)
			mean, err := Mean(s, tr)
			require.NoError(t, err)
			require.InEpsilon(t, float64(r.Mean().Value), float64(mean), 0.01, fmt.Sprintf("%+v p=%g", s, p))
		}
	}
}

// Where repeats take most of the channel, long messages of erasure coding agree, too.
func TestClosedFormAgreesUnderHeavyLoss(t *testing.T) {
	tr := Transfer{Rate: 400 * units.Gbit, RTT: 50 * units.Microsecond, Size: 20 * units.MiB, Unit: 4 * units.KiB}
	for _, p := range []UnitDrop{0.3, 0.5, 0.9} {
		for _, e := range []EC{{Code: MDS, K: 32, M: 8, Beta: 0.5}, {Code: XOR, K: 32, M: 8, Beta: 0.5}, {Code: MDS, K: 8, M: 1, Beta: 0.5}} {
			tr.Drop = p
			mean, err := Mean(e, tr)
			require.NoError(t, err)
			require.InEpsilon(t, float64(simulate(t, e, tr, 100).Mean().Value), float64(mean), 0.05, "%+v p=%g", e, p)
		}
	}
}
