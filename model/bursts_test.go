// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func burstyLink(size units.Bytes, drop PacketDrop, burst float64, packets int64) Transfer {
	return Transfer{
		Rate: 100 * units.Gbit, RTT: 10 * units.Millisecond, Size: size, Unit: 4 * units.KiB * units.Bytes(packets),
		Drop: drop.UnitInBursts(packets, burst), Control: drop, Burst: burst, Packets: packets,
	}
}

// In the long run as many units are lost as the drop probability says, in runs of the mean length.
func TestBurstsHaveTheirRateAndLength(t *testing.T) {
	const seed, n = 7, 40_000
	for _, c := range []struct {
		drop    PacketDrop
		burst   float64
		packets int64
	}{{1e-3, 8, 1}, {1e-2, 8, 1}, {1e-2, 32, 1}, {1e-3, 8, 16}, {1e-2, 64, 16}, {0.3, 4, 1}} {
		tr := burstyLink(units.GiB, c.drop, c.burst, c.packets)
		src := newSource(tr)
		src.seed(seed, 0)
		require.InEpsilon(t, float64(c.drop), src.bursts.drop, 1e-6, "the packet's drop probability from the unit's")
		at, lost, runs := src.first(), int64(0), int64(0)
		for range n {
			lost++
			gap := src.gap()
			if gap > 0 {
				runs++
			}
			at += 1 + gap
		}
		slack := 6 * c.burst / math.Sqrt(n)
		require.InEpsilon(t, float64(tr.Drop), float64(lost)/float64(at), min(slack, 0.3), "%+v seed %d", c, seed)
		if c.packets == 1 {
			_, leave := chain(float64(c.drop), c.burst)
			require.InEpsilon(t, 1/leave, float64(lost)/float64(runs), min(slack, 0.3), "%+v seed %d", c, seed)
		}
	}
}

// A repeat right after a lost one is lost as a packet in a burst is; long after it, as any other.
func TestRepeatsMeetBursts(t *testing.T) {
	const seed, n = 11, 200_000
	tr := burstyLink(units.GiB, 0.05, 8, 1)
	_, leave := chain(0.05, 8)
	for _, c := range []struct{ apart, want float64 }{{1, 1 - leave}, {1e4, 0.05}} {
		src := newSource(tr)
		src.seed(seed, 0)
		before, both, first := false, 0.0, 0.0
		for i := range n {
			lost := src.lostAt(float64(i+1) * tr.inject() * c.apart)
			if before {
				first++
				if lost {
					both++
				}
			}
			before = lost
		}
		require.InEpsilon(t, 0.05, first/n, 0.2, "seed %d", seed)
		require.InDelta(t, c.want, both/first, 0.05, "seed %d", seed)
	}
}

// Bursts of one packet are independent losses, whichever code draws them.
func TestBurstsOfOnePacket(t *testing.T) {
	tr := paperLink(16*units.MiB, 1e-2)
	for _, s := range allSchemes {
		want, err := Simulate(s, tr, Options{Samples: 500, Seed: 1})
		require.NoError(t, err)
		one := tr
		one.Burst, one.Packets = 1, 16
		got, err := Simulate(s, one, Options{Samples: 500, Seed: 1})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestBurstsForAnyNumberOfThreads(t *testing.T) {
	tr := burstyLink(16*units.MiB, 1e-2, 8, 16)
	for _, s := range allSchemes {
		want, err := Simulate(s, tr, Options{Samples: 300, Seed: 42, Threads: 1})
		require.NoError(t, err)
		got, err := Simulate(s, tr, Options{Samples: 300, Seed: 42, Threads: 4})
		require.NoError(t, err)
		require.Equal(t, want, got, "%+v", s)
	}
}

// Bursts break a code that independent losses of that rate don't, and cost repeats less than those:
// fewer rounds, because neighbours are repeated together.
func TestBurstsBreakCodes(t *testing.T) {
	mean := func(s Scheme, tr Transfer) float64 {
		r, err := Simulate(s, tr, Options{Samples: 1000, Seed: 1})
		require.NoError(t, err)
		return float64(r.Mean().Value) / float64(tr.Ideal())
	}
	bursts, alone := burstyLink(16*units.MiB, 1e-2, 8, 1), burstyLink(16*units.MiB, 1e-2, 1, 1)
	mds := EC{K: 32, M: 8, Beta: 0.5}
	require.Less(t, mean(mds, alone), 1.1)
	require.Greater(t, mean(mds, bursts), 1.8)
	require.Less(t, mean(SR{Alpha: 2}, bursts), mean(SR{Alpha: 2}, alone))
	require.Less(t, mean(Adaptive{}, bursts), 1.05, "adaptive sizes its parity for bursts")
	more, err := ParityUnits(Adaptive{}, bursts)
	require.NoError(t, err)
	few, err := ParityUnits(Adaptive{}, alone)
	require.NoError(t, err)
	require.Greater(t, more, few)
}

func TestBurstsOutOfRange(t *testing.T) {
	for _, change := range []func(*Transfer){
		func(t *Transfer) { t.Burst = 0.5 }, func(t *Transfer) { t.Burst = math.NaN() }, func(t *Transfer) { t.Burst = 2 * MaxBurst },
		func(t *Transfer) { t.Packets = -1 }, func(t *Transfer) { t.Packets = 1 << 40 },
	} {
		tr := burstyLink(units.MiB, 1e-3, 8, 1)
		change(&tr)
		_, err := Simulate(NACK(), tr, Options{Samples: 1})
		require.ErrorIs(t, err, ErrRange)
	}
	tr := burstyLink(units.MiB, 1e-3, 8, 1)
	_, err := Mean(NACK(), tr)
	require.ErrorIs(t, err, ErrRange)
	require.ErrorContains(t, err, "Simulate")
	_, err = EC{K: 32, M: 8}.FallbackProbability(tr)
	require.ErrorIs(t, err, ErrRange)
	_, _, err = EC{K: 32, M: 8}.BestSplit(tr)
	require.ErrorIs(t, err, ErrRange)
}
