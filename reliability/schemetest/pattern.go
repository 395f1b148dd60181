// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// fewPackets and fewFrames are how many of the first transmissions, and of
	// the receiver's first frames, are lost in every combination.
	fewPackets = 7
	fewFrames  = 3
)

// patterns loses every subset of the first packets of tiny transfers, or some of
// them.
func (s Suite) patterns(some bool) *Failure {
	stride := 1
	if some {
		stride = 17 // no power of two, so that each packet's fate still varies
	}
	for n := 1; n <= 3; n++ {
		for mask := 0; mask < 1<<(fewPackets+fewFrames); mask += stride {
			c := Case{Seed: uint64(mask), Units: n, Channels: 2, Spread: 1, ParityPool: s.ParityPool, Replay: true}
			for i := range fewPackets + fewFrames {
				switch {
				case mask>>i&1 == 0:
				case i < fewPackets:
					c.Faults = append(c.Faults, Fault{Kind: Drop, Index: i})
				default:
					c.Faults = append(c.Faults, Fault{Kind: Drop, Control: true, Back: true, Index: i - fewPackets})
				}
			}
			if f := s.try("every pattern of few packets", c); f != nil {
				return f
			}
		}
	}
	return nil
}

// losePattern makes the network lose packets by rules that no random process has:
// the same place of each row, all of a stretch, all but every k-th. Of control
// frames at most every other is lost in the long run.
func losePattern(c *Case, rng *rand.Rand) {
	c.Replay = true
	for _, stream := range []Fault{{}, {Control: true}, {Control: true, Back: true}} {
		lost := pattern(rng, c.Units, stream.Control)
		for i := range 2*c.Units + 30 {
			if lost(i) {
				stream.Kind, stream.Index = Drop, i
				c.Faults = append(c.Faults, stream)
			}
		}
	}
}

// repeatsLost is how many packets in a row are lost behind the first transmissions:
// a sender may ask only once a second whether anything gets through.
const repeatsLost = 20

// pattern returns a rule that says which packets of a stream are lost, of which n are
// first transmissions.
func pattern(rng *rand.Rand, n int, control bool) func(i int) bool {
	k := 2 + rng.IntN(9)
	from, length := rng.IntN(n), 1+rng.IntN(n)
	if control {
		length = min(length, repeatsLost)
	}
	stretch := func(i int) bool { return i >= from && i < min(from+length, n+repeatsLost) }
	switch kind := rng.IntN(6); {
	case kind == 0:
		return func(int) bool { return false }
	case kind == 1:
		return func(i int) bool { return i%k == 0 }
	case kind == 2:
		return func(i int) bool { return i/k%2 == 0 }
	case kind == 3 || control:
		return stretch
	case kind == 4:
		return func(i int) bool { return i%k != 0 && i < n+repeatsLost }
	default: // loses the last first transmissions, and all repeats for a while
		return func(i int) bool { return i >= n-1-k && i < n+repeatsLost }
	}
}

// goodput measures transfers of many units through a bottleneck.
func (s Suite) goodput(t *testing.T) {
	for _, p := range []PPM{0, 1000, 10_000} {
		for _, queue := range []int{16, 256, 4096} {
			c := Case{
				Seed: 5, Units: 20000, Rate: 10 * units.Gbit, ParityPool: s.ParityPool,
				Link: Link{Loss: p, ControlLoss: p, Bottleneck: 9 * units.Gbit, Queue: queue},
			}
			r, err := s.run(c)
			if err != nil {
				t.Fatal(err)
			}
			d := c.withDefaults()
			got := units.RateOf(d.length(), r.Completion[0])
			whole := int64(c.Link.Bottleneck) / 1e6 * int64(1e6-p)
			if float64(got) < s.Goodput*float64(whole) {
				t.Errorf("loss %d ppm, queue of %d units: %v, want %.2f of %v (%d units sent)",
					p, queue, got, s.Goodput, units.Rate(whole), r.Injected)
			}
		}
	}
}
