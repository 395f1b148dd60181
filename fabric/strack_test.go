// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// strackConfig is that of the paper's section 4.2: marks from a quarter to three quarters of the product of 400
// Gbit/s and 8 µs, drops at five.
func strackConfig(c strack.Config) Config {
	c.BaseRTT = 8 * units.Microsecond
	return Config{
		Transport: must(c.Factory()), Routing: Routing{Mode: Entropy}, AckSize: 84,
		ECN:    []ECN{{KMin: 100 * units.KB, KMax: 300 * units.KB, PMax: 1}},
		Buffer: Buffer{Size: 256 * units.MB, QueueLimit: 2 * units.MB}, Seed: 1,
	}
}

// STrack's figures 16, 19 and 20: an incast drops in its first two base round trips only, its queue is stable soon at
// about the target delay, more senders or fewer, and the last message ends when the link has carried all.
//
// Senders are on leaves of their own, and there are more spines than senders: where the links to the receiver's
// leaf carry less than the senders' first windows, these take longer than a round trip to arrive. A largest window
// of one product, as the paper says, ends the drops with them. With one and a half, which spraying needs, senders whose
// first packets came before the others' have raised their windows by then: receivers that answer four packets at once tell them of the
// queue so late that a few more are dropped for another round trip, and those that answer each mark in time.
func TestSTrackIncast(t *testing.T) {
	for _, c := range []struct {
		senders   int
		size      units.Bytes
		most      float64 // window, in products
		prompt    strack.Prompt
		low, high float64 // mean delay of the queue, µs; 0: not looked at
	}{
		{8, 16 * units.MiB, 1.5, strack.PromptMarked, 6, 12},
		{32, 16 * units.MiB, 1.5, strack.PromptGaps, 6, 12},
		{32, 16 * units.MiB, 1.5, strack.PromptMarked, 6, 12},
		{128, 4 * units.MiB, 1.5, strack.PromptMarked, 8, 20},
		{32, units.MiB, 1, strack.PromptGaps, 0, 0},
	} {
		var flows []workload.Flow
		for i := range c.senders {
			flows = append(flows, workload.Flow{Src: 4 + i*(128/c.senders), Dst: 0, Size: c.size})
		}
		window := congestion.STrackDefaults()
		window.BaseRTT, window.Max = 8*units.Microsecond, c.most
		config := strackConfig(strack.Config{Congestion: must(congestion.STrack(window)), Prompt: c.prompt})
		s := build(t, leafSpine(33, 4, 64, 400*units.Gbit, 400*units.Gbit, units.Microsecond), config, flows)
		const leaf = 33 * 4        // the switch of host 0, which is its port 0
		const step = des.Time(1e6) // 1 µs
		ideal := des.Serialization((c.size+c.size/4096*64)*units.Bytes(c.senders), 400*units.Gbit)
		sum, most, n, lastDrop, dropped, early := 0.0, 0.0, 0, des.Time(0), uint64(0), uint64(0)
		for at := step; !s.Done(); at += step {
			s.Run(at)
			if d := s.dropped(); d != dropped {
				dropped, lastDrop = d, at
			}
			if at == 16*step {
				early = dropped
			}
			if at > 150*step && at < ideal*9/10 {
				delay := float64(des.Serialization(s.Queued(leaf, 0), 400*units.Gbit)) / float64(step)
				sum, most, n = sum+delay, max(most, delay), n+1
			}
		}
		last := s.now
		mean := sum / float64(n)
		t.Logf("%d senders of %v, a window of at most %g, prompt %d: %d drops, %d by 16 µs, the last by %d µs; queue from 150 µs on %.1f µs, at most %.1f; %.4f of the ideal",
			c.senders, c.size, c.most, c.prompt, dropped, early, lastDrop/step, mean, most, float64(last)/float64(ideal))
		if c.most == 1 {
			require.Equal(t, dropped, early, "the first round trip")
			continue
		}
		require.True(t, c.low <= mean && mean <= c.high, "mean delay of the queue: %.1f µs", mean)
		if c.prompt == strack.PromptMarked && c.senders <= 32 {
			require.Equal(t, dropped, early, "two base round trips: the first windows leave in one and arrive within half of one")
		}
		if c.senders <= 32 {
			require.GreaterOrEqual(t, float64(early), 0.99*float64(dropped))
			require.Less(t, lastDrop, 48*step, "a round trip with a full queue of 40 µs")
			require.Less(t, float64(last)/float64(ideal), 1.02)
		}
	}
}

// Figures 9 and 14 in the small: adaptive spraying goes round failed links, oblivious spraying doesn't.
func TestSTrackGoesRoundFailures(t *testing.T) {
	longest := map[bool]des.Time{}
	for _, oblivious := range []bool{false, true} {
		g := leafSpine(8, 16, 16, 400*units.Gbit, 400*units.Gbit, units.Microsecond)
		hosts := len(g.Hosts())
		for i := hosts; i < len(g.Links); i++ { // the first leaf loses two of its sixteen links
			if l := &g.Links[i]; l.A == g.Links[hosts].A && i < hosts+2 {
				l.Down = true
			}
		}
		s := build(t, g, strackConfig(strack.Config{Oblivious: oblivious}), permutation(hosts, 8*units.MiB, 3))
		s.Step(1 << 40)
		require.True(t, s.Done())
		longest[oblivious] = s.now
	}
	t.Logf("adaptive %d ns, oblivious %d ns", longest[false]/1000, longest[true]/1000)
	require.Greater(t, float64(longest[true])/float64(longest[false]), 1.1)
}

// TestSTrackAtALowRate: a pace of more round trips for a packet than a probe waits leaves data their share of it, with losses and without.
func TestSTrackAtALowRate(t *testing.T) {
	for _, loss := range []float64{0, 0.05} {
		g := star(2, 100*units.Gbit, 100)
		g.Links[0].Loss = loss
		slow := strack.Config{Congestion: func(congestion.Path) congestion.Controller { return congestion.Fixed{Rate: 100 * units.Mbit} }}
		s := build(t, g, Config{Transport: must(slow.Factory()), Seed: 1}, []workload.Flow{{Src: 0, Dst: 1, Size: 256 * units.KiB}})
		s.Run(100 * 1000 * micro)
		require.True(t, s.Done(), "%+v", s.Result())
	}
}

// TestSTrackOnSlowLinks: where the product is two or three packets a sender doesn't wait for probes, and an incast whose packets wait for longer than the
// least timeout isn't one of repeats. At most its first windows are repeated, for which there is no round trip to go by.
func TestSTrackOnSlowLinks(t *testing.T) {
	for _, c := range []struct {
		senders int
		rate    units.Rate
		delay   units.Duration
	}{
		{1, units.Gbit, units.Microsecond},
		{2, units.Gbit, units.Microsecond},
		{8, units.Gbit, units.Microsecond},
		{32, units.Gbit, units.Microsecond},
		{1, 10 * units.Gbit, units.Microsecond},
		{8, 10 * units.Gbit, units.Microsecond},
		{1, 100 * units.Mbit, 10 * units.Microsecond},
		{8, 100 * units.Mbit, 10 * units.Microsecond},
	} {
		const size = units.MiB
		var flows []workload.Flow
		for i := range c.senders {
			flows = append(flows, workload.Flow{Src: i + 1, Dst: 0, Size: size})
		}
		s := build(t, star(c.senders+1, c.rate, c.delay), Config{Transport: must((&strack.Config{}).Factory())}, flows)
		ideal := des.Serialization((size+size/4096*64)*units.Bytes(c.senders), c.rate)
		s.Run(ideal * 11 / 10)
		require.True(t, s.Done(), "%+v: not in 1.1 of the ideal", c)
		r := s.Result()
		t.Logf("%+v: %.3f of the ideal, %d timeouts", c, float64(s.now)/float64(ideal), r.Timeouts)
		if c.senders <= 2 {
			require.Zero(t, r.Timeouts, "%+v", c)
		}
		require.LessOrEqual(t, r.Timeouts, uint64(8*c.senders), "%+v", c)
	}
}
