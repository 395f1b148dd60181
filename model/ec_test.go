// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

var smallGroups = []group{
	newGroup(MDS, 1, 1), newGroup(MDS, 4, 2), newGroup(MDS, 8, 3), newGroup(MDS, 3, 3),
	newGroup(XOR, 1, 1), newGroup(XOR, 4, 2), newGroup(XOR, 8, 3), newGroup(XOR, 2, 5), newGroup(XOR, 7, 7),
}

// Appendix B against every loss pattern there is.
func TestSuccessProbabilityExhaustively(t *testing.T) {
	for _, g := range smallGroups {
		n := int(g.units())
		has := make([]bool, n)
		for _, p := range []float64{1e-6, 0.01, 0.3, 0.8} {
			fails, lacking, rows := 0.0, 0.0, 0.0
			for pattern := range 1 << n {
				lostUnits := bits.OnesCount(uint(pattern))
				weight := math.Pow(p, float64(lostUnits)) * math.Pow(1-p, float64(n-lostUnits))
				var lost []int64
				for i := range has {
					if has[i] = pattern>>i&1 == 0; !has[i] {
						lost = append(lost, int64(i))
					}
				}
				ready, lack := g.decode(lost, make([]uint8, MaxGroup))
				require.Equal(t, naiveDecodable(g, has), lack == 0, "%+v %b", g, pattern)
				if lack > 0 {
					fails += weight
					lacking += weight * float64(lack)
					rows += weight * float64(g.m)
				} else {
					rows += weight * float64(ready-g.k)
				}
			}
			require.InEpsilon(t, fails, g.fails(p), 1e-6, "%+v p=%g", g, p)
			require.InEpsilon(t, lacking/fails, g.meanLacking(p), 1e-6, "%+v p=%g", g, p)
			if g.code == MDS {
				require.InEpsilon(t, rows, g.meanRows(p), 1e-6, "%+v p=%g", g, p)
			} else {
				// The closed form leaves out that a failed group waits for all of its parity.
				require.InDelta(t, rows, g.meanRows(p), float64(g.m)*fails+1e-12, "%+v p=%g", g, p)
			}
		}
	}
}

// ready is the shortest prefix of what was sent that can be decoded.
func TestReadyIsTheShortestDecodablePrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		g := smallGroups[rnd.IntN(len(smallGroups))]
		has := make([]bool, g.units())
		var lost []int64
		for i := range has {
			if has[i] = rnd.Float64() > 0.2; !has[i] {
				lost = append(lost, int64(i))
			}
		}
		ready, lacking := g.decode(lost, make([]uint8, MaxGroup))
		if lacking > 0 {
			continue
		}
		prefix := make([]bool, len(has))
		copy(prefix, has[:ready])
		require.True(t, naiveDecodable(g, prefix), "%+v lost %v ready %d", g, lost, ready)
		if ready > g.k {
			prefix[ready-1] = false
			require.False(t, naiveDecodable(g, prefix), "%+v lost %v ready %d", g, lost, ready)
		}
	}
}

func TestFallbackProbability(t *testing.T) {
	tr := paperLink(128*units.MiB, 1e-3)
	p, err := EC{K: 32, M: 8}.FallbackProbability(tr)
	require.NoError(t, err)
	require.Less(t, p, 1e-12)
	p, err = EC{Code: XOR, K: 32, M: 8}.FallbackProbability(tr)
	require.NoError(t, err)
	// 64 submessages of 8 classes of 5 units: 512·C(5,2)·1e-6.
	require.InEpsilon(t, 5.1e-3, p, 0.01)
}

// A message of 40 units in submessages of 32 ends with one of 8: less parity is sent by XOR(32,8)
// never, by XOR(32,16) for the classes that would be empty, by MDS never.
func TestShortLastSubmessage(t *testing.T) {
	tr := paperLink(40*64*units.KiB, 0)
	for _, c := range []struct {
		e     EC
		units float64
	}{
		{EC{Code: XOR, K: 32, M: 8, Fallback: Whole}, 40 + 8 + 8},
		{EC{Code: XOR, K: 32, M: 16, Fallback: Whole}, 40 + 16 + 8},
		{EC{Code: MDS, K: 32, M: 16, Fallback: Whole}, 40 + 16 + 16},
		{EC{Code: MDS, K: 32, M: 16}, 40 + 16},
	} {
		r, err := Simulate(c.e, tr, Options{Samples: 1})
		require.NoError(t, err)
		require.InDelta(t, c.units*tr.inject()+tr.rtt(), float64(r.Mean().Value), 1, "%+v", c.e)
	}
	// One submessage of a single unit, repeated whole: a single unit is resent, not 32.
	tr = paperLink(64*units.KiB, 0.9)
	tr.RTT = 10 * units.Microsecond // so that a unit matters
	e := EC{Code: XOR, K: 32, M: 8, Beta: 1, Fallback: Whole}
	r, err := Simulate(e, tr, Options{Samples: 20000})
	require.NoError(t, err)
	// 0.81 of the time both units are lost; then 10 tries on average, RTT+inject apart.
	want := 2*tr.inject() + 0.81*(2*tr.rtt()+tr.inject()+9*(tr.rtt()+tr.inject())) + tr.rtt()
	require.InEpsilon(t, want, float64(r.Mean().Value), 0.03)
}

// A submessage that fails for certain, as far as a float64 knows, is counted, too.
func TestWholeOfWhatAlwaysFails(t *testing.T) {
	for _, size := range []units.Bytes{units.MiB, 8 * units.MiB} {
		tr := paperLink(size, 0.6)
		e := EC{K: 100, M: 1, Alpha: 2, Beta: 0.5, Fallback: Whole}
		mean, err := Mean(e, tr)
		require.NoError(t, err)
		require.InEpsilon(t, float64(simulate(t, e, tr, 2000).Mean().Value), float64(mean), 0.05, "%v", size)
		_, best, err := e.BestSplit(tr)
		require.NoError(t, err)
		require.Greater(t, best, tr.Ideal(), "%v", size)
	}
}
