// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/units"
)

// A scenario is a family of cases.
type scenario struct {
	name string
	fill func(c *Case, rng *rand.Rand)
}

// pick returns one of its arguments.
func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// vary gives a case a size, a shape and a mild network.
func vary(c *Case, rng *rand.Rand) {
	c.Units = 1 + rng.IntN(pick(rng, 3, 20, 100, 600))
	c.ShortTail = rng.IntN(2) == 0
	c.Channels = pick(rng, 1, 2, 4, 7, 16)
	c.Spread = pick(rng, 1, 4, 64)
	c.Burst = pick(rng, 1, 4, 16)
	c.Rate = pick(rng, units.Gbit, 10*units.Gbit, 100*units.Gbit)
	c.Link.Delay = pick(rng, 50*units.Microsecond, units.Millisecond, 12*units.Millisecond)
	c.MaxFrame = pick(rng, 128, 1024, 4096)
	c.Coding = pick(rng, 0, 20*units.Microsecond, 3*units.Millisecond)
	c.Link.Loss = pick[PPM](rng, 0, 1000, 30_000)
	c.Link.ControlLoss = c.Link.Loss
}

// spread gives the channels different delays.
func spread(c *Case, rng *rand.Rand, most units.Duration) {
	for range c.Channels {
		c.Link.Extra = append(c.Link.Extra, units.Duration(rng.Int64N(int64(most))))
	}
}

// within is an instant within a transfer's ideal time.
func (c *Case) within(rng *rand.Rand) units.Instant {
	return units.Instant(rng.Int64N(int64(c.Ideal())))
}

// recovery is how long after a blackout nothing may happen: what is sent to find
// out whether it is over may be 1 s apart, and be lost.
const recovery = 5 * units.Second

// blackout loses all packets, all units or all frames for a time.
func blackout(c *Case, rng *rand.Rand, d units.Duration) {
	from := c.within(rng)
	b := Blackout{From: from, To: from.Add(d)}
	switch rng.IntN(3) {
	case 1:
		b.DataOnly = true
	case 2:
		b.ControlOnly = true
	}
	c.Link.Blackouts = []Blackout{b}
}

// bursts loses as much in bursts of any mean length: with one seed, the cases differ
// only by that.
func bursts(mean int) func(*Case, *rand.Rand) {
	return func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss = pick[PPM](rng, 1000, 10_000, 100_000)
		c.Link.Mean = mean
	}
}

var scenarios = []scenario{
	{"no loss", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss, c.Link.ControlLoss = 0, 0
	}},
	{"independent loss", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss = pick[PPM](rng, 100, 1000, 10_000, 30_000, 100_000, 300_000)
		c.Link.ControlLoss = c.Link.Loss
	}},
	{"any pattern of loss", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		losePattern(c, rng)
	}},
	{"bursts of mean 1", bursts(1)},
	{"bursts of mean 4", bursts(4)},
	{"bursts of mean 16", bursts(16)},
	{"bursts of mean 64", bursts(64)},
	{"half of the control frames lost", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.ControlLoss = 500_000
	}},
	{"only control frames lost", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss, c.Link.ControlLoss = 0, pick[PPM](rng, 10_000, 200_000, 500_000)
	}},
	{"only the way back is lossy", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss, c.Link.ControlLoss = 0, 0
		c.Link.AckLoss = pick[PPM](rng, 10_000, 200_000, 500_000, 900_000)
	}},
	{"loss sets in", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss, c.Link.LossFrom = 100_000, c.within(rng)
	}},
	{"loss ends", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Loss, c.Link.LossTo = 300_000, c.within(rng)
	}},
	{"channels of different delay", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		spread(c, rng, 2*c.Link.Delay)
	}},
	{"reordering and duplicates", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Reorder, c.Link.Duplicate = 100_000, 100_000 // of 100 packets 10 come late, and one of those twice
		c.Link.ControlReorder = 300_000
		c.Link.ReorderBy = pick(rng, c.Link.Delay/10, c.Link.Delay, 4*c.Link.Delay)
	}},
	{"delay jumps", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		for range 1 + rng.IntN(3) {
			c.Link.Jumps = append(c.Link.Jumps, Jump{At: c.within(rng), Delay: c.Link.Delay * pick[units.Duration](rng, 1, 2, 10, 50)})
		}
	}},
	{"short blackout", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		blackout(c, rng, c.RTT())
	}},
	{"blackout of 10 s", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		blackout(c, rng, 10*units.Second)
		c.Limit = units.Duration(c.Link.Blackouts[0].To) + recovery + 50*c.Ideal()
	}},
	{"a channel dies", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Channels = 2 + rng.IntN(7)
		c.Link.Blackouts = []Blackout{{From: c.within(rng), To: units.Instant(units.Minute) * 60, Channels: []int{rng.IntN(c.Channels)}}}
	}},
	{"buffers come late", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		for i := 0; i < c.Units; {
			i += 1 + rng.IntN(c.Units)
			c.Buffers = append(c.Buffers, Grant{At: c.within(rng) * 3, Units: i})
		}
	}},
	{"slots", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Slots = 1 + rng.IntN(64)
	}},
	{"small window", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Window = 1 + rng.IntN(8)
		c.Link.ControlLoss = pick(rng, c.Link.Loss, 500_000)
	}},
	{"bottleneck", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Link.Bottleneck = c.Rate / 10 * pick[units.Rate](rng, 2, 5, 9)
		c.Link.Queue = pick(rng, 4, 64, 1000)
	}},
	{"the round trip is not known", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.RTTAtStart = pick(rng, -1, units.Microsecond, c.RTT()*20)
	}},
	{"transfers one by one", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Units = 1 + rng.IntN(20)
		c.Transfers = 20
		c.Bidirectional = rng.IntN(2) == 0
	}},
	{"64 transfers both ways at once", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Units = 1 + rng.IntN(20)
		c.Transfers, c.Together, c.Bidirectional = 64, true, true
	}},
	{"hostile frames", func(c *Case, rng *rand.Rand) {
		vary(c, rng)
		c.Garbage = true
	}},
}
