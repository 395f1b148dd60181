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
		t.Run(s().Name(), func(t *testing.T) { schemetest.Suite{New: s, Goodput: 0.95}.Run(t) })
	}
}

// No repeat is spurious while packets are only reordered between channels, however much,
// and the delays of paths differ by less than the RTO: three
// round trips, in both modes, because nothing is known of the channels at first. The
// depth is how many units are overtaken, here up to 340.
func TestNoSpuriousRepeatUnderReordering(t *testing.T) {
	const rtt = 10 * units.Millisecond
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, slower := range []units.Duration{rtt / 100, rtt / 10, rtt / 2, rtt, rtt * 18 / 10} {
			for seed := range uint64(60) {
				rng := rand.New(rand.NewPCG(seed, 7))
				c := schemetest.Case{
					Seed: seed, Units: 1 + rng.IntN(800), Channels: 1 + rng.IntN(16), Spread: 1 << rng.IntN(7),
					Window: 1000, Burst: 1 + rng.IntN(16), Link: schemetest.Link{Delay: rtt / 2},
				}
				for range c.Channels {
					c.Link.Extra = append(c.Link.Extra, units.Duration(rng.Int64N(int64(slower))))
				}
				if c.Channels > 1 {
					c.Link.Extra[rng.IntN(c.Channels)] = slower
				}
				c.Transfers = 1 + rng.IntN(3)
				r, err := c.Run(makeScheme(mode))
				require.NoError(t, err)
				require.Zero(t, r.Missing)
				require.Zero(t, r.Sender.Retransmitted, "mode %d, slower by %v, seed %d: nothing was lost", mode, slower, seed)
				require.Zero(t, r.Sender.Spurious)
			}
		}
	}
}

// With losses beside the reordering, only what was lost is repeated.
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

// After a blackout of 10 s a transfer goes on within about a second.
func TestRecoveryAfterBlackout(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, channels := range []int{1, 4} {
			c := schemetest.Case{Seed: 3, Units: 5000, Channels: channels}
			restored := units.Instant(10050 * units.Millisecond)
			c.Link.Blackouts = []schemetest.Blackout{{From: units.Instant(50 * units.Millisecond), To: restored}}
			took, r := run(t, mode, c)
			most := units.Duration(restored) + units.Second + 2*c.Ideal()
			require.Less(t, took, most, "mode %d, %d channels", mode, channels)
			require.Less(t, r.Sender.Retransmitted, uint64(3000), "mode %d, %d channels", mode, channels)
		}
	}
}

// What arrives after a blackout answers nothing that was sent during it: the last
// frame before it was lost, and its marks come with the first one after it. Timers
// must not become as long as the blackout.
func TestTimersAreNotAsLongAsBlackout(t *testing.T) {
	restored := units.Instant(10 * units.Second)
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 9))
			c := schemetest.Case{
				Seed: seed, Units: 1 + rng.IntN(100), Channels: 1 + rng.IntN(8), Spread: 4, Burst: 4, MaxFrame: 128,
				Link: schemetest.Link{Delay: units.Millisecond, Loss: 30_000},
			}
			c.Link.Blackouts = []schemetest.Blackout{{From: units.Instant(rng.Int64N(int64(c.Ideal()))), To: restored}}
			took, _ := run(t, mode, c)
			// A second until the next packet that finds out, another if it is
			// lost, and its repairs.
			require.Less(t, took, units.Duration(restored)+3*units.Second, "mode %d, seed %d", mode, seed)
		}
	}
}

// Where ten packets in a row are lost again and again, each hole costs a few timeouts, and the timeouts of
// one hole must not make those of the next one longer.
func TestTimersStayShortBetweenHoles(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		c := schemetest.Case{Seed: 1, Units: 300, Channels: 1, Rate: units.Gbit, Window: 4, Replay: true,
			Link: schemetest.Link{Delay: 50 * units.Microsecond}}
		for i := range 2 * c.Units {
			if i%20 < 10 {
				c.Faults = append(c.Faults, schemetest.Fault{Kind: schemetest.Drop, Index: i})
			}
		}
		took, _ := run(t, mode, c)
		// 30 holes of at most ten expiries, the later ones with back-off from 10 ms on.
		require.Less(t, took, 3*units.Second, "mode %d", mode)
	}
}

// A queue that takes longer than the timeout is noticed, though every unit is then
// repeated before its answer comes.
func TestTimeoutFollowsQueue(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		c := schemetest.Case{
			Seed: 1, Units: 300, Channels: 1, Window: 11, Rate: units.Gbit,
			Link: schemetest.Link{Delay: units.Millisecond, Bottleneck: 200 * units.Mbit, Queue: 1000},
		}
		_, r := run(t, mode, c)
		require.Less(t, r.Sender.Retransmitted, uint64(30), "mode %d", mode)
	}
}
