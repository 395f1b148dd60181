// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package reliability_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	kindRate  = units.Gbit
	kindRTT   = 25 * ms
	kindMTU   = 4096
	kindKnown = 980 * units.Mbit
	kindSmall = 160 * kindMTU
)

// kindQueue is one product of rate and round trip.
var kindQueue = kindRate.Bytes(kindRTT)

// A kindCase is a link on which losses are of one kind.
type kindCase struct {
	name     string
	rate     units.Rate // configured
	queue    units.Bytes
	drop     float64        // at random
	skew     units.Duration // of every other channel
	blackout units.Duration // so long nothing arrives, once in a transfer
	// most are the most of a hundred proved losses that may be taken for another kind than kind.
	kind string
	most float64
}

func (c *kindCase) pair(t testing.TB) *pair { return c.seeded(t, 7) }

func (c *kindCase) seeded(t testing.TB, seed uint64) *pair {
	link := sim.Link{Rate: kindRate, Queue: c.queue, Delay: kindRTT / 2, Loss: sim.Loss{Drop: c.drop}}
	if c.skew > 0 {
		link.ChannelDelay = []units.Duration{0, c.skew}
	}
	return newPair(t, setup{
		net: sim.Config{Rate: 20 * units.Gbit, Seed: seed, Link: link},
		qp:  sdr.QPConfig{MTU: kindMTU}, conn: reliability.Config{Rate: c.rate}, scheme: newAdaptive(t),
	})
}

// blackOut lets nothing through for d, from a time after now on, both ways.
func (p *pair) blackOut(after, d units.Duration) {
	from := p.net.Now().Add(after)
	p.net.SetFilter(func(sim.PacketInfo) sim.Verdict {
		if now := p.net.Now(); now >= from && now < from.Add(d) {
			return sim.Drop
		}
		return sim.Deliver
	})
}

// units are the counters after n transfers of a size.
func (c *kindCase) units(t testing.TB, n int, size units.Bytes) scheme.Stats {
	p := c.pair(t)
	for range n {
		if c.blackout > 0 {
			p.blackOut(150*ms, c.blackout)
		}
		p.timed(size)
	}
	return p.conn[0].Stats().Units
}

// TestKindsOfLosses prints the table of docs/congestion.md: what losses are, and what they are taken for.
func TestKindsOfLosses(t *testing.T) {
	shallow, deep := 64*units.KiB, 4*kindQueue
	var out strings.Builder
	for _, c := range []kindCase{
		{name: "random, 1e-4, rate known", rate: kindKnown, queue: kindQueue, drop: 1e-4, kind: "random"},
		{name: "random, 1e-3, rate known", rate: kindKnown, queue: kindQueue, drop: 1e-3, kind: "random"},
		{name: "random, 1e-2, rate known", rate: kindKnown, queue: kindQueue, drop: 1e-2, kind: "random"},
		{name: "random, 1e-2, rate unknown, start-up overflows, too", queue: kindQueue, drop: 1e-2, kind: "random", most: 60},
		{name: "rate 20 % too high, 64 KiB", rate: 1200 * units.Mbit, queue: shallow, kind: "queue", most: 10},
		{name: "rate 20 % too high, 4 products", rate: 1200 * units.Mbit, queue: deep, kind: "queue"},
		{name: "rate 10 times too high, 64 KiB", rate: 10 * units.Gbit, queue: shallow, kind: "queue", most: 10},
		{name: "rate 10 times too high, 4 products", rate: 10 * units.Gbit, queue: deep, kind: "queue"},
		{name: "rate unknown, 64 KiB", queue: shallow, kind: "queue", most: 5},
		{name: "rate unknown, 1 product", queue: kindQueue, kind: "queue", most: 5},
		{name: "skew of 10 ms between channels", rate: kindKnown, queue: kindQueue, skew: 10 * ms, kind: "none"},
		{name: "blackouts of 50 ms", rate: kindKnown, queue: kindQueue, blackout: 50 * ms, kind: "blackout"},
	} {
		u := c.units(t, 12, 16*units.MiB)
		l := u.Losses
		all := l.Random + l.Queue + l.Blackout
		right := map[string]uint64{"random": l.Random, "queue": l.Queue, "blackout": l.Blackout}[c.kind]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %.1f %% |\n", c.name, l.Random, l.Queue, l.Blackout, l.Disproved, u.Sent,
			100*float64(all-right)/float64(max(all, 1)))
		require.LessOrEqual(t, 100*float64(all-right), c.most*float64(all), "%s: %+v", c.name, l)
		if c.drop >= 1e-2 {
			require.InDelta(t, c.drop*49_152, float64(l.Random), 0.15*c.drop*49_152, c.name)
		}
	}
	t.Logf("\n| what is lost | random | queue | blackout | disproved | sent | wrong |\n|---|---|---|---|---|---|---|\n%s", &out)
}

// TestParityIsForRandomLossAlone: skew gets as much parity as a clean link does, and a rate that is too high groups of no more rows than
// a link of which nothing is known, nor more parity: what the queue loses is repeated.
func TestParityIsForRandomLossAlone(t *testing.T) {
	for _, n := range []units.Bytes{kindSmall, 16 * units.MiB} {
		clean := kindCase{rate: kindKnown, queue: kindQueue}
		cold, want := clean.units(t, 1, n), clean.units(t, 20, n)
		for _, c := range []kindCase{
			{name: "skew of 10 ms", rate: kindKnown, queue: kindQueue, skew: 10 * ms},
			{name: "rate 20 % too high, 64 KiB", rate: 1200 * units.Mbit, queue: 64 * units.KiB},
			{name: "rate 20 % too high, 1 product", rate: 1200 * units.Mbit, queue: kindQueue},
		} {
			got := c.units(t, 20, n)
			require.LessOrEqual(t, got.M, cold.M, "%v, %s: rows of a group of %d", n, c.name, got.K)
			require.LessOrEqual(t, got.Parity, 20*cold.Parity, "%v, %s", n, c.name)
			if c.skew > 0 {
				require.LessOrEqual(t, float64(got.Parity), 1.1*float64(want.Parity), c.name)
			}
			t.Logf("%v, %s: %d parity units of %d, %d where nothing is lost; %+v; %s", n, c.name, got.Parity, got.Sent, want.Parity, got.Losses, got.Explain)
		}
	}
}

// TestBlackoutCostsNoRate: a blackout of 50 ms costs what it takes, and a round trip to send again what it took.
func TestBlackoutCostsNoRate(t *testing.T) {
	const blackout = 50 * ms
	for _, rate := range []units.Rate{0, kindKnown} {
		for _, n := range []units.Bytes{4 * units.MiB, 16 * units.MiB, 64 * units.MiB} {
			c := kindCase{rate: rate, queue: kindQueue}
			p := c.pair(t)
			for range 10 {
				p.timed(n)
			}
			p.blackOut(50*ms+kindRTT+20*ms, blackout)
			took, after := p.timed(n), p.timed(n)
			ideal := kindRate.Time(n) + kindRTT
			t.Logf("rate %v, %v: %.3f of the ideal, %.3f with the blackout in it, then %.3f", rate, n,
				float64(took)/float64(ideal), float64(took)/float64(ideal+blackout), float64(after)/float64(ideal))
			require.Less(t, float64(took), 1.05*float64(ideal+blackout), "rate %v, %v", rate, n)
			require.Less(t, float64(after), 1.05*float64(ideal), "rate %v, %v", rate, n)
		}
	}
}

// TestRateTenTimesTooHigh: a configured rate that is ten times the link's costs a second at most, and ends as if none had been given.
func TestRateTenTimesTooHigh(t *testing.T) {
	const n = 128 * units.MiB
	for _, queue := range []units.Bytes{64 * units.KiB, kindQueue} {
		times := map[units.Rate][2]units.Duration{}
		for _, rate := range []units.Rate{0, 10 * units.Gbit} {
			c := kindCase{rate: rate, queue: queue}
			p := c.pair(t)
			times[rate] = [2]units.Duration{p.timed(n), p.timed(n)}
			t.Logf("queue %v, configured %v: %v, %d repeats", queue, rate, times[rate], p.conn[0].Stats().Units.Retransmitted)
		}
		none, wrong := times[0], times[10*units.Gbit]
		require.Less(t, wrong[0], none[0]+units.Second/2, "%v", queue)
		require.Less(t, float64(wrong[1]), 1.05*float64(none[1]), "%v", queue)
	}
}

// doubling is how long n bytes take that begin with 32 packets in a round trip, paced, and twice as many in each, up to the link's rate.
func doubling(n units.Bytes) (took units.Duration) {
	took = kindRTT // of the last one's answer
	for window := units.Bytes(32 * kindMTU); n > 0; window *= 2 {
		rate := min(units.RateOf(window, kindRTT), kindRate)
		took += min(kindRTT, rate.Time(n))
		n -= rate.Bytes(kindRTT)
	}
	return took
}

// TestUnknownRateUnderLoss: the link of docs/results/peers.md, whose rate nobody told. Transfers of three round trips differ by a tenth, and twenty of
// them by some percent from seed to seed: with 80 seeds their mean is 1.065, from 1.03 to 1.1.
func TestUnknownRateUnderLoss(t *testing.T) {
	for _, c := range []struct {
		n     units.Bytes
		seeds uint64
		warm  float64
	}{{8 * units.MiB, 10, 1.085}, {32 * units.MiB, 1, 1.04}, {128 * units.MiB, 1, 1.04}} {
		ideal := float64(kindRate.Time(c.n) + kindRTT)
		warm, times := 0.0, max(int(160*units.MiB/c.n), 5)
		for seed := range c.seeds {
			link := kindCase{queue: kindQueue, drop: 1e-2}
			p := link.seeded(t, 7+seed)
			cold := float64(p.timed(c.n)) / ideal
			for range 10 {
				p.timed(8 * units.MiB)
			}
			sum := 0.0
			for range times {
				sum += float64(p.timed(c.n)) / ideal / float64(times)
			}
			warm += sum / float64(c.seeds)
			t.Logf("%v, seed %d: cold %.3f, warm %.3f; %s", c.n, 7+seed, cold, sum, p.conn[0].Stats().Units.Explain)
			if c.n >= 8*kindQueue {
				require.LessOrEqual(t, cold, 1.5, "%v, seed %d", c.n, 7+seed)
			} else {
				require.LessOrEqual(t, cold*ideal, float64(doubling(c.n)+2*kindRTT), "%v, seed %d", c.n, 7+seed)
			}
		}
		t.Logf("%v: warm %.3f", c.n, warm)
		require.LessOrEqual(t, warm, c.warm, "%v", c.n)
	}
}

// TestLossesAreFoundInTime: the same link, on which nothing is reordered. With three of these six seeds some repeat was taken for one that had
// been for nothing while the queue was full, and from then on each loss was repeated a round trip later: about 1.2 of the ideal.
func TestLossesAreFoundInTime(t *testing.T) {
	const n, times = 8 * units.MiB, 10
	for seed := range uint64(6) {
		c := kindCase{queue: kindQueue, drop: 1e-2}
		p := c.seeded(t, seed+1)
		p.timed(n)
		p.timed(n)
		warm := 0.0
		for range times {
			warm += float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT) / times
		}
		require.LessOrEqual(t, warm, 1.12, "seed %d", seed+1)
	}
}

// A listener is a controller that limits nothing, and keeps what it hears of losses.
type listener struct {
	congestion.Fixed
	heard map[congestion.LossKind]units.Bytes
}

func (l listener) OnLoss(_ units.Instant, x congestion.Loss) { l.heard[x.Kind] += x.Bytes }

// TestUnevenChannelsOfUnknownRate: channels that take different ways are no queue. The rate that is found is that of all of them.
func TestUnevenChannelsOfUnknownRate(t *testing.T) {
	const n = 64 * units.MiB
	for _, skew := range []units.Duration{ms / 2, 2 * ms, 6 * ms, 10 * ms} {
		c := kindCase{queue: kindQueue, skew: skew}
		p := c.pair(t)
		p.timed(n) // warm
		got := float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT+skew)
		t.Logf("%v: %.3f", skew, got)
		require.Less(t, got, 1.1, "%v", skew)
	}
}

// TestVaryingDelaysOfUnknownRate: nor are delays that vary, in the order of each channel or as tc's netem does it, from packet to packet.
func TestVaryingDelaysOfUnknownRate(t *testing.T) {
	const n = 128 * units.MiB
	for _, jitter := range []units.Duration{ms * 3 / 4, 3 * ms} {
		for _, link := range []sim.Link{{Jitter: jitter}, {Reorder: 1, ReorderDelay: jitter}} {
			link.Rate, link.Queue, link.Delay = kindRate, kindQueue, kindRTT/2
			p := newPair(t, setup{net: sim.Config{Rate: 20 * units.Gbit, Seed: 7, Link: link}, qp: sdr.QPConfig{MTU: kindMTU}, scheme: newAdaptive(t)})
			p.timed(n) // warm
			got := float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT+jitter)
			t.Logf("%v, in order %v: %.3f", jitter, link.Jitter > 0, got)
			require.Less(t, got, 1.25, "%v, in order %v", jitter, link.Jitter > 0)
		}
	}
}

// TestBlackoutIsNoLossToTheRate: what a blackout took the congestion control hears of as of a path that carried nothing.
func TestBlackoutIsNoLossToTheRate(t *testing.T) {
	heard := map[congestion.LossKind]units.Bytes{}
	p := newPair(t, setup{
		net: sim.Config{Rate: kindRate, Seed: 7, Link: sim.Link{Delay: kindRTT / 2}}, qp: sdr.QPConfig{MTU: kindMTU},
		conn: reliability.Config{Rate: kindKnown, Congestion: congestion.Spec{
			Name: "listener", New: func(congestion.Path) congestion.Controller { return listener{heard: heard} },
		}},
		scheme: newAdaptive(t),
	})
	p.blackOut(150*ms, 50*ms)
	p.timed(16 * units.MiB)
	require.Greater(t, heard[congestion.LossTimeout], kindKnown.Bytes(20*ms), "%v", heard)
	require.Zero(t, heard[congestion.LossDetected], "%v", heard)
}

// TestCopiesAreNoLosses: where hardly anything is missing a unit that was lost several times goes out several times at once. The
// congestion control hears of no more losses than were proved or guessed.
func TestCopiesAreNoLosses(t *testing.T) {
	for name, s := range map[string]func() scheme.Scheme{"sr-nack": newSR(t, sr.NACK), "adaptive": newAdaptive(t)} {
		heard := map[congestion.LossKind]units.Bytes{}
		p := newPair(t, setup{
			net: sim.Config{Rate: kindRate, Seed: 7, Link: sim.Link{Delay: kindRTT / 2, Loss: sim.Loss{Drop: 0.4}}, ControlLoss: &sim.Loss{}},
			qp:  sdr.QPConfig{MTU: kindMTU},
			conn: reliability.Config{Rate: kindKnown, Congestion: congestion.Spec{
				Name: "listener", New: func(congestion.Path) congestion.Controller { return listener{heard: heard} },
			}},
			scheme: s,
		})
		for range 200 {
			p.timed(kindMTU)
		}
		u := p.conn[0].Stats().Units
		most := units.Bytes(u.Losses.Random+u.Losses.Queue+u.Timeouts) * kindMTU
		require.Greater(t, most, units.Bytes(50*kindMTU), name)
		require.LessOrEqual(t, heard[congestion.LossDetected]+heard[congestion.LossGuessed]+heard[congestion.LossTimeout], most, name)
	}
}

// TestLateAndLostUnitsAreNoQueue: units that are late or lost, and not declared so yet, don't look like packets that wait for longer and longer,
// which made an unknown rate fall from transfer to transfer.
func TestLateAndLostUnitsAreNoQueue(t *testing.T) {
	late, all := sim.Link{Reorder: 0.1, ReorderDelay: 12 * ms}, sim.Link{Reorder: 1, ReorderDelay: 6 * ms}
	for _, c := range []struct {
		name   string
		scheme func() scheme.Scheme
		link   sim.Link
		n      units.Bytes
		most   float64
	}{
		{"sr, 5 % lost", newSR(t, sr.RTO), sim.Link{Loss: sim.Loss{Drop: 0.05}}, 16 * units.MiB, 4},
		{"adaptive, 10 % late", newAdaptive(t), late, 64 * units.MiB, 1.2},
		{"sr-nack, 10 % late", newSR(t, sr.NACK), late, 64 * units.MiB, 1.3},
		{"adaptive, all up to 6 ms later", newAdaptive(t), all, 64 * units.MiB, 1.1},
		{"sr-nack, all up to 6 ms later", newSR(t, sr.NACK), all, 64 * units.MiB, 1.1},
		{"strack, half late", withPaths(t)["strack"], sim.Link{Reorder: 0.5, ReorderDelay: 6 * ms}, 64 * units.MiB, 1.3},
	} {
		c.link.Rate, c.link.Queue, c.link.Delay = kindRate, kindRate.Bytes(kindRTT), kindRTT/2
		p := newPair(t, setup{net: sim.Config{Rate: 20 * units.Gbit, Seed: 3, Link: c.link}, qp: sdr.QPConfig{MTU: kindMTU}, scheme: c.scheme})
		for range 7 {
			p.timed(c.n)
		}
		got := float64(p.timed(c.n)) / float64(kindRate.Time(c.n)+kindRTT)
		t.Logf("%s: %.3f", c.name, got)
		require.Less(t, got, c.most, c.name)
	}
}

// TestSideBySideRepeatsNothing: a receiver of several transfers asks for what it expects while others take their turn. Of that nothing is sent
// again that isn't lost.
func TestSideBySideRepeatsNothing(t *testing.T) {
	const n, transfers = units.MiB, 16
	for _, code := range []scheme.CodeKind{scheme.MDS, scheme.XOR} {
		p := newPair(t, setup{
			net: sim.Config{Rate: kindRate, Seed: 7, Link: sim.Link{Delay: kindRTT / 2}}, qp: sdr.QPConfig{MTU: kindMTU},
			conn: reliability.Config{Rate: kindKnown}, scheme: newEC(t, code, 32, 8),
		})
		src, dst := p.mr(0, n*transfers, 1), p.mr(1, n*transfers, 2)
		var all []*reliability.Transfer
		for i := range units.Bytes(transfers) {
			r, err := p.conn[1].StartRecv(dst, i*n, n)
			require.NoError(t, err)
			s, err := p.conn[0].StartSend(src, i*n, n, reliability.SendOptions{})
			require.NoError(t, err)
			all = append(all, r, s)
		}
		p.until(10*units.Second, func() bool {
			return !slices.ContainsFunc(all, func(x *reliability.Transfer) bool { return !finished(x) })
		})
		require.Zero(t, p.conn[0].Stats().Units.Retransmitted, "%v", code)
	}
}

// TestBurstEndsNoStart: nor does a burst of losses, behind which nothing waits, end the search for an unknown rate.
func TestBurstEndsNoStart(t *testing.T) {
	const n, every, dark = 16 * units.MiB, 100 * ms, 5 * ms
	p := newPair(t, setup{
		net: sim.Config{Rate: 20 * units.Gbit, Seed: 7, Link: sim.Link{Rate: kindRate, Queue: kindRate.Bytes(kindRTT), Delay: kindRTT / 2}},
		qp:  sdr.QPConfig{MTU: kindMTU}, scheme: newAdaptive(t),
	})
	p.net.SetFilter(func(sim.PacketInfo) sim.Verdict {
		if p.net.Now().Sub(0)%every < dark {
			return sim.Drop
		}
		return sim.Deliver
	})
	first := float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT)
	second := float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT)
	t.Logf("%.2f, %.2f", first, second)
	require.Less(t, first, 3.5)
	require.Less(t, second, 1.7)
}

// TestHeavyLossIsRandom: where a tenth and more get lost from the first round on, though nothing waits, that is no queue: it neither ends the
// search for the rate nor has what was found, or configured, fall. One transfer may take twice as long as another by chance, so that it is asked
// of the median of the first transfers of five seeds, and of the mean of four later ones of each; of their median where three tenths get lost,
// as a tenth of the transfers there are taken for ones through a full queue, and take 4 to 160 times the ideal.
func TestHeavyLossIsRandom(t *testing.T) {
	const n, seeds, laterOnes = 16 * units.MiB, 5, 4
	for _, c := range []struct {
		drop, first, later float64
		rate               units.Rate
	}{{0.1, 2.5, 1.7, 0}, {0.2, 2.8, 2.2, 0}, {0.1, 1.7, 1.7, kindKnown}, {0.2, 2.1, 2.2, kindKnown}, {0.3, 3.6, 2.8, 0}, {0.3, 2.6, 3.1, kindKnown}} {
		for name, mk := range map[string]func() scheme.Scheme{"sr-nack": newSR(t, sr.NACK), "adaptive": newAdaptive(t), "strack": withPaths(t)["strack"]} {
			if name == "strack" && c.drop > 0.2 {
				continue // its own window falls
			}
			var firsts, laters []float64
			later := 0.0
			for seed := range uint64(seeds) {
				p := newPair(t, setup{
					net: sim.Config{
						Rate: 20 * units.Gbit, Seed: seed, ControlLoss: &sim.Loss{Drop: c.drop},
						Link: sim.Link{Rate: kindRate, Queue: kindRate.Bytes(kindRTT), Delay: kindRTT / 2, Loss: sim.Loss{Drop: c.drop}},
					},
					qp: sdr.QPConfig{MTU: kindMTU}, conn: reliability.Config{Rate: c.rate}, scheme: mk,
				})
				timed := func() float64 { return float64(p.timed(n)) / float64(kindRate.Time(n)+kindRTT) }
				firsts = append(firsts, timed())
				for range laterOnes {
					laters = append(laters, timed())
					later += laters[len(laters)-1] / (seeds * laterOnes)
				}
			}
			slices.Sort(firsts)
			if c.drop > 0.2 {
				slices.Sort(laters)
				later = laters[len(laters)/2]
			}
			t.Logf("%s, %g lost, rate %v: first %.2f, later %.2f", name, c.drop, c.rate, firsts, later)
			first, most := c.first, c.later
			if name == "strack" {
				first, most = first*1.25, most*1.4
			}
			require.Less(t, firsts[seeds/2], first, "%s, %g lost, rate %v", name, c.drop, c.rate)
			require.Less(t, later, most, "%s, %g lost, rate %v", name, c.drop, c.rate)
		}
	}
}
