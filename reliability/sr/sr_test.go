// SPDX-License-Identifier: Apache-2.0

package sr_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// schemeOf returns a maker of schemes configured as c, which must be valid.
func schemeOf(c sr.Config) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := sr.New(c)
		if err != nil {
			panic(err)
		}
		return s
	}
}

func makeScheme(mode sr.Mode) func() scheme.Scheme { return schemeOf(sr.Config{Mode: mode}) }

func TestTransfersEnd(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, loss := range []schemetest.PPM{0, 1000, 10000, 100000} {
			c := schemetest.Case{Seed: 1, Units: 3000, Link: schemetest.Link{Loss: loss}}
			r, err := c.Run(makeScheme(mode))
			require.NoError(t, err)
			require.Zero(t, r.Missing)
			require.LessOrEqual(t, int(r.Sender.Retransmitted), len(r.Faults), "repeats only what was lost")
			require.Zero(t, r.Sender.Spurious)
		}
	}
}

func TestConformance(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		s := makeScheme(mode)
		t.Run(s().Name(), func(t *testing.T) { schemetest.Suite{New: s}.Run(t) })
	}
}

// RELIABILITY, NACK mode: "Reordering between channels causes no spurious
// retransmission while the spread of path delays stays below that timer", here
// the RTO, since nothing is known of the channels at first.
func TestNoSpuriousRepeatUnderReordering(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		rtt := 10 * units.Millisecond
		c := schemetest.Case{
			Seed: seed, Units: 1 + rng.IntN(800), Channels: 1 + rng.IntN(16), Spread: 1 << rng.IntN(7),
			Window: 1000, Burst: 1 + rng.IntN(16), Link: schemetest.Link{Delay: rtt / 2},
		}
		for range c.Channels {
			// Up to 2.8 RTT in all, below the RTO of three.
			c.Link.Extra = append(c.Link.Extra, units.Duration(rng.Int64N(int64(rtt)*18/10)))
		}
		c.Transfers = 1 + rng.IntN(3)
		r, err := c.Run(makeScheme(sr.NACK))
		require.NoError(t, err)
		require.Zero(t, r.Sender.Retransmitted, "seed %d: nothing was lost", seed)
	}
}

// The same with loss: only what was lost is repeated.
func TestRepeatsOnlyWhatWasLost(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 8))
		c := schemetest.Case{
			Seed: seed, Units: 1 + rng.IntN(2000), Channels: 1 + rng.IntN(8), Spread: 1 << rng.IntN(7),
			Link: schemetest.Link{Loss: 10_000, ControlLoss: 10_000, Extra: []units.Duration{0, units.Millisecond, 3 * units.Millisecond}},
		}
		r, err := c.Run(makeScheme(sr.NACK))
		require.NoError(t, err)
		require.Zero(t, r.Sender.Spurious, "seed %d", seed)
		lost := 0
		for _, f := range r.Faults {
			if !f.Control {
				lost++
			}
		}
		require.LessOrEqual(t, int(r.Sender.Retransmitted), lost, "seed %d", seed)
	}
}

// Issue 6, point 6: "a bottleneck 10 % below the configured rate (goodput at
// least 0.95 of bottleneck·(1−p))".
func TestGoodputThroughBottleneck(t *testing.T) {
	for _, p := range []schemetest.PPM{0, 1000, 10_000} {
		for _, queue := range []int{16, 256, 4096} {
			c := schemetest.Case{
				Seed: 5, Units: 20000, Rate: 10 * units.Gbit,
				Link: schemetest.Link{Loss: p, ControlLoss: p, Bottleneck: 9 * units.Gbit, Queue: queue},
			}
			r, err := c.Run(makeScheme(sr.NACK))
			require.NoError(t, err)
			goodput := units.RateOf(20000*64*units.KiB, r.Completion[0])
			want := float64(c.Link.Bottleneck) * (1 - float64(p)/1e6)
			require.Greater(t, float64(goodput), 0.95*want, "loss %d ppm, queue %d: %v, %d spurious", p, queue, goodput, r.Sender.Spurious)
		}
	}
}

// After a blackout of 10 s a transfer goes on within about a second.
func TestRecoveryAfterBlackout(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, channels := range []int{1, 4} {
			c := schemetest.Case{Seed: 3, Units: 5000, Channels: channels}
			end := units.Instant(10050 * units.Millisecond)
			c.Link.Blackouts = []schemetest.Blackout{{From: units.Instant(50 * units.Millisecond), To: end}}
			took, r := run(t, mode, c)
			most := units.Duration(end) + units.Second + 2*c.Ideal()
			require.Less(t, took, most, "mode %d, %d channels", mode, channels)
			require.Less(t, r.Sender.Retransmitted, uint64(3000), "mode %d, %d channels", mode, channels)
		}
	}
}
