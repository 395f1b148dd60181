// SPDX-License-Identifier: Apache-2.0

//go:build !race

// The controllers have no goroutines, and these tests much virtual time.

package congestion_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// The whole table is test/congestion's; here are a few of its rows.

const (
	packet = 1500
	ms     = units.Instant(units.Millisecond)
	sec    = units.Instant(units.Second)
)

func bbrFlow(rtt units.Duration, start units.Instant) bottleneck.Flow {
	return bottleneck.Flow{
		Controller: congestion.BBR()(congestion.Path{MTU: packet}), RTT: rtt, Start: start,
		Report: min(max(rtt/32, 100*units.Microsecond), 5*units.Millisecond),
	}
}

// A flow alone uses the link, and neither fills its queue nor takes random losses for those of a
// full one.
func TestBBRAlone(t *testing.T) {
	for _, rtt := range []units.Duration{400 * units.Microsecond, 2 * units.Millisecond, 25 * units.Millisecond, 100 * units.Millisecond} {
		const rate = 200 * units.Mbit
		product := rate.Bytes(rtt)
		for _, buffer := range []units.Bytes{max(product/10, 64*units.KiB), max(product, 64*units.KiB)} {
			for _, loss := range []float64{0, 1e-2} {
				name := fmt.Sprintf("%v, buffer %v, %g lost at random", rtt, buffer, loss)
				b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: buffer, Packet: packet, Loss: loss, Seed: 7}, bbrFlow(rtt, 0))
				b.Run(6 * sec)
				s := b.Sum(0, 2*sec, 6*sec)
				mean, _ := b.Queued(2*sec, 6*sec)
				require.Greater(t, float64(b.Rate(0, 2*sec, 6*sec)), 0.93*(1-loss)*float64(rate), name)
				require.Less(t, float64(s.Dropped), 0.01*float64(s.Sent), name)
				require.Less(t, float64(mean), 0.5*float64(buffer), name)
			}
		}
	}
}

// Flows of one round trip become equal within three seconds after the last has begun, and stay it.
func TestBBRShares(t *testing.T) {
	for _, rtt := range []units.Duration{400 * units.Microsecond, 2 * units.Millisecond} {
		for _, n := range []int{2, 8} {
			const rate = units.Gbit
			var flows []bottleneck.Flow
			for i := range n {
				flows = append(flows, bbrFlow(rtt, units.Instant(i)*1200*ms))
			}
			from := units.Instant(n-1)*1200*ms + 3*sec
			b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: max(rate.Bytes(rtt), 64*units.KiB), Packet: packet, Seed: 3}, flows...)
			b.Run(from + 6*sec)
			require.Greater(t, b.WorstJain(from, from+6*sec), 0.95, "%d flows, %v", n, rtt)
		}
	}
}

// The rate follows the link down and up, and recovers after the link has carried nothing for a while.
func TestBBRFollows(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 25 * units.Millisecond
	for _, low := range []units.Rate{0, rate / 10} {
		b := bottleneck.New(bottleneck.Link{
			Rate: rate, Buffer: rate.Bytes(rtt), Packet: packet,
			Changes: []bottleneck.Change{{At: 4 * sec, Rate: low}, {At: 14 * sec, Rate: rate}},
		}, bbrFlow(rtt, 0))
		b.Run(18 * sec)
		if low > 0 {
			from := 4*sec + 300*ms // ten round trips, and one until it is heard of
			require.Greater(t, float64(b.Rate(0, from, 14*sec)), 0.9*float64(low))
		}
		from := 14*sec + 600*ms
		require.Greater(t, float64(b.Rate(0, from, 18*sec)), 0.9*float64(rate), "after %v", low)
	}
}

// Where nothing marks, a queue stays short; where all that wait are marked, it stays shorter.
func TestBBRHearsMarks(t *testing.T) {
	const rate, rtt = units.Gbit, 25 * units.Millisecond
	queue := func(mark units.Bytes) units.Bytes {
		b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: 4 * units.MiB, Packet: packet, MarkFrom: mark, MarkTo: mark}, bbrFlow(rtt, 0))
		b.Run(6 * sec)
		require.Greater(t, float64(b.Rate(0, 2*sec, 6*sec)), 0.93*float64(rate))
		mean, _ := b.Queued(2*sec, 6*sec)
		return mean
	}
	marked := queue(5 * packet)
	require.Less(t, marked, units.Bytes(5*packet))
	require.Less(t, 2*marked, queue(0))
}

// Whatever a peer claims, the limits stay within what is documented, and nothing breaks.
func TestBBRBoundsLies(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wild := func() int64 {
			return []int64{0, 1, -1, 1500, 1 << 20, 1 << 40, 1<<63 - 1, -1 << 63, rng.Int64(), int64(rng.IntN(1 << 24))}[rng.IntN(10)]
		}
		c := congestion.BBR()(congestion.Path{
			MTU: units.Bytes(wild()), BaseRTT: units.Duration(wild()), Found: congestion.Model{Rate: units.Rate(wild()), MinRTT: units.Duration(wild()), Guess: rng.IntN(2) == 0},
		})
		auto := congestion.Auto()(congestion.Path{MTU: units.Bytes(wild()), LineRate: units.Rate(max(wild(), 0))})
		now := units.Instant(rng.IntN(1000))
		for range 2000 {
			if rng.IntN(50) == 0 {
				now = units.Instant(rng.Int64N(1 << 50))
			}
			now += units.Instant(rng.IntN(int(10 * units.Millisecond)))
			switch rng.IntN(5) {
			case 0, 1:
				n, inflight := units.Bytes(wild()), units.Bytes(wild())
				c.OnSent(now, n, inflight)
				auto.OnSent(now, n, inflight)
			case 2:
				a := &congestion.Ack{
					RTT: units.Duration(wild()), Smoothed: units.Duration(wild()), Least: units.Duration(wild()), Floor: units.Duration(wild()),
					Acked: units.Bytes(wild()), Inflight: units.Bytes(wild()), Late: units.Bytes(wild()), ECN: rng.IntN(200) == 0,
				}
				c.OnAck(now, a)
				auto.OnAck(now, a)
			case 3:
				l := congestion.Loss{Bytes: units.Bytes(wild()), Kind: congestion.LossKind(rng.IntN(8))}
				c.OnLoss(now, l)
				auto.OnLoss(now, l)
			case 4:
				c.OnCNP(now)
				if rng.IntN(100) == 0 {
					auto.OnCNP(now)
				}
			}
			rate, window := auto.Limits(now)
			require.True(t, rate >= 0 && rate <= 10*units.Tbit && window >= 0, "auto, seed %d: %d, %d", seed, rate, window)
			rate, window = c.Limits(now)
			require.Positive(t, rate, "seed %d", seed)
			require.LessOrEqual(t, rate, 10*units.Tbit, "seed %d", seed)
			require.Positive(t, window, "seed %d", seed)
		}
	}
}

// The same calls give the same limits.
func TestBBRRepeats(t *testing.T) {
	run := func() []bottleneck.Record {
		l := bottleneck.Link{Rate: 100 * units.Mbit, Buffer: 128 * units.KiB, Packet: packet, Loss: 1e-3, Seed: 5}
		b := bottleneck.New(l, bbrFlow(4*units.Millisecond, 0), bbrFlow(20*units.Millisecond, sec))
		b.Run(4 * sec)
		return b.Records(1)
	}
	require.Equal(t, run(), run())
}

// No call allocates.
func TestBBRAllocatesNothing(t *testing.T) {
	for _, f := range []congestion.Factory{congestion.BBR(), congestion.Auto()} {
		c := f(congestion.Path{MTU: packet})
		now, ack := units.Instant(0), congestion.Ack{RTT: units.Millisecond, Acked: packet, Inflight: 10 * packet}
		require.Zero(t, testing.AllocsPerRun(20_000, func() {
			now = now.Add(20 * units.Microsecond)
			c.OnSent(now, packet, 10*packet)
			c.OnAck(now, &ack)
			c.OnLoss(now, congestion.Loss{Bytes: packet})
			c.Limits(now)
		}))
	}
}

func BenchmarkBBR(b *testing.B) {
	c := congestion.BBR()(congestion.Path{MTU: packet})
	now, ack := units.Instant(0), congestion.Ack{RTT: units.Millisecond, Acked: packet, Inflight: 100 * packet}
	for b.Loop() {
		now = now.Add(10 * units.Microsecond)
		c.OnSent(now, packet, 100*packet)
		c.OnAck(now, &ack)
		c.Limits(now)
	}
}

// leastShares are the least of the link that two flows had over any ten seconds that begin within 7 s and last.
func leastShares(b *bottleneck.Bed, rate units.Rate, last units.Instant) [2]float64 {
	least := [2]float64{1, 1}
	for from := 7 * sec; from <= last; from += sec / 2 {
		for i := range least {
			least[i] = min(least[i], float64(b.Rate(i, from, from+10*sec))/float64(rate))
		}
	}
	return least
}

// A flow that comes to a link that CUBIC fills holds its share beside it, and leaves it what it needs: over any ten seconds from the
// fifth on neither is below 30 % of half of the link.
func TestBBRBesideCubic(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 25 * units.Millisecond
	b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: rate.Bytes(rtt), Packet: packet, Seed: 1},
		bbrFlow(rtt, 2*sec), bottleneck.Flow{Controller: &bottleneck.Cubic{Packet: packet}, RTT: rtt})
	b.Run(30 * sec)
	least := leastShares(b, rate, 20*sec)
	t.Logf("least share: %.3f, CUBIC's %.3f", least[0], least[1])
	require.Greater(t, least[0], 0.15)
	require.Greater(t, least[1], 0.15)
}

// Flows with round trips of 2 and 25 ms share a link, whoever is first, and nothing gets lost: both let packets wait alike.
func TestBBRMixedRoundTrips(t *testing.T) {
	const rate = 200 * units.Mbit
	short, long := 2*units.Millisecond, 25*units.Millisecond
	for _, rtts := range [][2]units.Duration{{short, long}, {long, short}} {
		b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: rate.Bytes(long), Packet: packet}, bbrFlow(rtts[0], 0), bbrFlow(rtts[1], sec))
		b.Run(12 * sec)
		worst := b.WorstJain(4*sec, 12*sec)
		dropped := b.Sum(0, 4*sec, 12*sec).Dropped + b.Sum(1, 4*sec, 12*sec).Dropped
		t.Logf("first %v: worst Jain index of a second %.3f", rtts[0], worst)
		require.Greater(t, worst, 0.8)
		require.Zero(t, dropped)
	}
}

// Eight flows for which a link has less than a packet each a round trip find the queue empty when they drain it together: nobody takes
// others' packets for the way.
func TestBBRManyOnAShortWay(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 400 * units.Microsecond
	var flows []bottleneck.Flow
	for i := range 8 {
		flows = append(flows, bbrFlow(rtt, units.Instant(i)*sec))
	}
	b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: 64 * units.KiB, Packet: packet}, flows...)
	b.Run(16 * sec)
	worst := b.WorstJain(10*sec, 16*sec)
	t.Logf("worst Jain index of a second %.3f", worst)
	require.Greater(t, worst, 0.95)
}
