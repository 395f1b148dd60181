// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// A searched path has a bottleneck with a queue without end; its sender always has data.
type searched struct {
	s    search
	now  units.Instant
	sent []units.Bytes // of each millisecond, until they are through
}

const searchedRTT = 25 * units.Millisecond

// run sends for so many round trips through a bottleneck of this rate.
func (d *searched) run(rounds int, bottleneck units.Rate) {
	const step = units.Millisecond
	d.s.unit, d.s.rtt, d.s.least = 4*units.KiB, searchedRTT, searchedRTT
	for range rounds * int(searchedRTT/step) {
		d.now = d.now.Add(step)
		r := d.s.step(d.now)
		n := r.Bytes(step)
		d.s.OnSent(d.now, n, 0)
		d.sent = append(d.sent, n)
		// What was sent a round trip ago comes through, as far as there is room.
		room := bottleneck.Bytes(step)
		for i := 0; i < len(d.sent)-int(searchedRTT/step) && room > 0; i++ {
			got := min(d.sent[i], room)
			d.sent[i] -= got
			room -= got
			d.s.OnAck(d.now, &Ack{Acked: got})
		}
	}
}

// Both a bottleneck that narrows and one that widens are followed, the latter faster
// than by a probe of a tenth after another.
func TestRateFollowsThePath(t *testing.T) {
	d := &searched{now: units.Instant(units.Second)}
	d.run(30, units.Gbit)
	require.InDelta(t, 1e9, float64(d.s.best()), 0.12e9)
	d.sent = nil
	d.run(60, 100*units.Mbit)
	require.InDelta(t, 0.1e9, float64(d.s.best()), 0.012e9)
	d.sent = nil
	d.run(60, units.Gbit)
	require.InDelta(t, 1e9, float64(d.s.best()), 0.12e9, "ten times more within 60 round trips")
}

// A path that stalls for a while, as a host without processors does, is no slower for it.
func TestStallsDontLowerTheRate(t *testing.T) {
	d := &searched{now: units.Instant(units.Second)}
	d.run(30, units.Gbit)
	for range 10 {
		d.sent = nil
		d.run(1, 0)
		d.run(2, units.Gbit)
	}
	require.Greater(t, float64(d.s.best()), 0.85e9)
}

// Whatever a peer claims, the limits stay within what is documented, and nothing breaks.
func TestSearchBoundsLies(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wild := func() int64 {
			return []int64{0, 1, -1, 1500, 1 << 20, 1 << 40, 1<<63 - 1, -1 << 63, rng.Int64(), int64(rng.IntN(1 << 24))}[rng.IntN(10)]
		}
		c := Search()(Path{MTU: units.Bytes(wild())})
		now := units.Instant(rng.IntN(1000))
		for range 2000 {
			if rng.IntN(50) == 0 {
				now = units.Instant(rng.Int64N(1 << 50))
			}
			now += units.Instant(rng.IntN(int(10 * units.Millisecond)))
			switch rng.IntN(5) {
			case 0, 1:
				c.OnSent(now, units.Bytes(wild()), units.Bytes(wild()))
			case 2, 3:
				c.OnAck(now, &Ack{Smoothed: units.Duration(wild()), Least: units.Duration(wild()), Acked: units.Bytes(wild())})
			case 4:
				c.OnLoss(now, Loss{Bytes: units.Bytes(wild()), Kind: LossKind(rng.IntN(8))})
			}
			rate, window := c.Limits(now)
			if rate == 0 && window == 0 {
				continue // no limit yet
			}
			require.True(t, rate >= minSearchRate && rate <= maxSearchRate && window > 0, "seed %d: %d, %d", seed, rate, window)
		}
	}
}
