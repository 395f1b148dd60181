// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"hash/fnv"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// The bytes that arrive are the load, within the error of so many messages.
func TestArrivalsHaveTheirLoad(t *testing.T) {
	for _, sigma := range []float64{0, 1, 2} {
		for _, name := range CDFNames() {
			sizes, ok := BuiltinCDF(name)
			require.True(t, ok)
			a := Arrivals{Sizes: sizes, Load: 0.6, Rate: 100 * units.Gbit, Sigma: sigma}
			a.Duration = units.Duration(2000 * sizes.Mean() * 8e9 / (a.Load * float64(a.Rate)))
			h := hosts(50)
			flows, err := a.Flows(h, 11)
			require.NoError(t, err)
			valid(t, flows, h)
			bytes, last, to := 0.0, units.Instant(0), map[int]int{}
			for _, f := range flows {
				require.GreaterOrEqual(t, f.Start, last)
				last = f.Start
				bytes += float64(f.Size)
				to[f.Dst]++
			}
			load := bytes * 8e9 / float64(a.Duration) / 50 / float64(a.Rate)
			require.InEpsilon(t, 0.6, load, 0.05*math.Exp(sigma), "%s, sigma %g: %d messages", name, sigma, len(flows))
			require.Len(t, to, 50)
		}
	}
}

// The gaps: mean and standard deviation of the two distributions, in units of the mean.
func TestGaps(t *testing.T) {
	const n = 400_000
	moments := func(draw func() float64) (mean, deviation float64) {
		sum, squares := 0.0, 0.0
		for range n {
			v := draw()
			sum, squares = sum+v, squares+v*v
		}
		mean = sum / n
		return mean, math.Sqrt(squares/n - mean*mean)
	}
	s := newSource(1, forArrivals, 1)
	mean, dev := moments(func() float64 { return s.exponential(5) })
	require.InEpsilon(t, 5, mean, 0.01)
	require.InEpsilon(t, 5, dev, 0.02)
	mean, dev = moments(func() float64 { return s.lognormal(5, 0.5) })
	require.InEpsilon(t, 5, mean, 0.01)
	require.InEpsilon(t, 5*math.Sqrt(math.Exp(0.25)-1), dev, 0.02)
	mean, dev = moments(s.normal)
	require.InDelta(t, 0, mean, 0.01)
	require.InEpsilon(t, 1, dev, 0.01)
	for _, x := range []float64{-700.25, -3.7, 0, 0.1, 0.999999, 5.5, 900} {
		require.InEpsilon(t, math.Exp2(x), exp2(x), 1e-12)
	}
	for _, x := range []uint64{1, 2, 3, 1 << 40, 0xdeadbeefcafe, math.MaxUint64} {
		require.InDelta(t, 64-math.Log2(float64(x)), float64(log2(x))/(1<<logBits), 1e-10)
	}
}

// The bits of a list, so that another architecture or a careless change shows.
func TestArrivalsBits(t *testing.T) {
	sizes, _ := BuiltinCDF("WebSearch")
	sum := fnv.New64a()
	for _, sigma := range []float64{0, 2} {
		flows, err := Arrivals{Sizes: sizes, Load: 0.7, Rate: 100 * units.Gbit, Duration: 30 * units.Millisecond, Sigma: sigma}.Flows(hosts(32), 1)
		require.NoError(t, err)
		for _, f := range flows {
			for _, v := range []int64{int64(f.Src), int64(f.Dst), int64(f.Size), int64(f.Start)} {
				for shift := 0; shift < 64; shift += 8 {
					_, _ = sum.Write([]byte{byte(v >> shift)})
				}
			}
		}
	}
	require.Equal(t, uint64(0xc1775ff1eb89db77), sum.Sum64(), "%#x", sum.Sum64())
}

func TestCDF(t *testing.T) {
	c, err := ReadCDF(strings.NewReader("0 0\n100 50\n\n300 100\n"))
	require.NoError(t, err)
	require.InDelta(t, 0.5*50+0.5*200, c.Mean(), 1e-9)
	for u, want := range map[float64]units.Bytes{0: 1, 0.25: 50, 0.5: 100, 0.75: 200, 1: 300} {
		require.Equal(t, want, c.Size(u), "%g", u)
	}
	w, _ := BuiltinCDF("WebSearch")
	require.InDelta(t, 1_711_250, w.Mean(), 1) // by hand from its twelve points
	_, ok := BuiltinCDF("websearch")
	require.False(t, ok)
	for in, want := range map[string]string{
		"":                   "begin with 0 % and end with 100 %",
		"0 0\n5 99\n":        "end with 100 %",
		"0 0\n5 10 3\n":      "line 2: want a size in bytes and a percentage",
		"0 0\n5 x\n":         "line 2: want a size",
		"0 0\n5 50\n4 100\n": "line 3: \"4 100\" is below the line before it",
		"0 0\n5 50\n6 40\n":  "both columns must ascend",
		"0 0\n5 101\n":       "line 2: want",
		"0 0\n0 100\n":       "largest size must be above 0",
		"0 0\nNaN NaN\n":     "line 2: want",
	} {
		_, err := ReadCDF(strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
	}
}

// Where links differ each host's is filled: by what it sends, with bursts by what it receives, with pipelines by its first stage.
func TestLoadOfUnequalLinks(t *testing.T) {
	rates := func(host int) units.Rate { return []units.Rate{10 * units.Gbit, 100 * units.Gbit}[host/8%2] }
	sizes, _ := BuiltinCDF("AliStorage")
	const load, time = 0.5, 20 * units.Millisecond
	for name, of := range map[string]struct {
		flows func(hosts []int, seed uint64) ([]Flow, error)
		host  func(Flow) (host int, counts bool)
	}{
		"poisson":  {Arrivals{Sizes: sizes, Load: load, Rates: rates, Duration: time}.Flows, func(f Flow) (int, bool) { return f.Src, true }},
		"burst":    {Bursts{Senders: 3, Size: 10 * units.KB, Load: load, Rates: rates, Duration: time}.Flows, func(f Flow) (int, bool) { return f.Dst, true }},
		"pipeline": {Pipelines{Stages: 2, Size: 10 * units.KB, Load: load, Rates: rates, Duration: time}.Flows, func(f Flow) (int, bool) { return f.Src, f.Src < 16 }},
	} {
		flows, err := of.flows(hostsOf(32), 1)
		require.NoError(t, err)
		bytes := map[units.Rate]float64{}
		for _, f := range flows {
			if h, counts := of.host(f); counts {
				bytes[rates(h)] += float64(f.Size)
			}
		}
		n := map[bool]float64{true: 8, false: 16}[name == "pipeline"] // hosts of each rate
		for _, r := range []units.Rate{10 * units.Gbit, 100 * units.Gbit} {
			require.InEpsilon(t, load, bytes[r]*8e9/(n*float64(r)*float64(time)), 0.1, "%s, %v", name, r)
		}
	}
}
