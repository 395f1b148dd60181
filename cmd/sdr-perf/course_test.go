// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// counted are the counters of two connections after n intervals, of which the first carries three times what the second does.
func counted(n int) []reliability.Stats {
	one := func(share units.Bytes) reliability.Stats {
		s := reliability.Stats{
			Units:   scheme.Stats{Sent: uint64(10 * n), Retransmitted: uint64(n), Losses: scheme.Losses{Random: uint64(n), Queue: uint64(2 * n)}},
			Arrived: units.Bytes(n) * share * units.KiB, Path: congestion.Model{Rate: 100 * units.Mbit, Queue: units.Millisecond, State: "cruise"},
		}
		s.QP.Congestions = uint64(3 * n)
		return s
	}
	return []reliability.Stats{one(3), one(1)}
}

// TestCourseKeepsSums: however many intervals there are, some 600 to 1200 are kept, and nothing is counted twice or not at all.
func TestCourseKeepsSums(t *testing.T) {
	for _, n := range []int{1, 2, maxIntervals - 1, maxIntervals, 5*maxIntervals + 7} {
		at := 0
		c := &course{every: units.Millisecond, merged: 1, stats: func() []reliability.Stats { return counted(at) }, last: counted(0)}
		for at = 1; at <= n; at++ {
			c.before = units.Duration(at) * units.Millisecond
			c.sample(at == n)
		}
		var r result.Congestion
		c.tell(&r)
		require.Less(t, len(r.Course), maxIntervals)
		require.GreaterOrEqual(t, len(r.Course), min(n, maxIntervals/2))
		var sum result.Interval
		bits, before := 0.0, units.Duration(0)
		for _, v := range r.Course {
			sum.Sent += v.Sent
			sum.Repeated += v.Repeated
			sum.Marks += v.Marks
			sum.LostRandom += v.LostRandom
			sum.LostQueue += v.LostQueue
			bits += float64(v.GoodputBps) * (v.EndNs - before).Seconds()
			before = v.EndNs
			require.InDelta(t, 0.8, *v.Jain, 1e-9)
			require.Len(t, v.FlowBps, 2)
			require.InEpsilon(t, 3*float64(v.FlowBps[1]), float64(v.FlowBps[0]), 1e-6)
			require.Equal(t, 200*units.Mbit, v.FoundBps)
			require.Equal(t, "cruise", v.State)
		}
		u := uint64(2 * n)
		require.Equal(t, result.Interval{Sent: 10 * u, Repeated: u, Marks: 3 * u, LostRandom: u, LostQueue: 2 * u}, sum, "%d intervals", n)
		require.InEpsilon(t, float64(n)*4*8*1024, bits, 1e-6)
		require.Equal(t, units.Duration(n)*units.Millisecond, before)
		require.InDelta(t, float64(200*units.Mbit), float64(r.MeanRateBps), 1)
		require.Equal(t, units.Millisecond, r.MeanQueueNs)
		require.InDelta(t, 0.8, *r.Jain, 1e-9)
	}
}

// TestCourseOfLateReadings: an interval whose counters were read long before or after the clock isn't ended there, as it would show what the next one,
// or the one before, has carried.
func TestCourseOfLateReadings(t *testing.T) {
	const each, perTick = 100 * units.Millisecond, 500 * units.MB
	for _, where := range []string{"before the counters", "after them"} {
		late, ticks := units.Duration(0), 0
		c := &course{every: each, merged: 1, last: make([]reliability.Stats, 1)}
		c.stats = func() []reliability.Stats {
			if where == "before the counters" {
				c.before += late
			}
			stats := []reliability.Stats{{Arrived: units.Bytes(c.before) * perTick / units.Bytes(each)}}
			if where == "after them" {
				c.before += late
			}
			return stats
		}
		for ; ticks < 40; ticks++ {
			c.before += each
			if late = 0; ticks%8 == 3 {
				late = each
			}
			c.sample(false)
		}
		late = 0
		c.sample(true)
		var r result.Congestion
		c.tell(&r)
		require.Greater(t, len(r.Course), 30)
		for _, v := range r.Course {
			require.InEpsilon(t, float64(40*units.Gbit), float64(v.GoodputBps), 1e-6, "%s, %v", where, v.EndNs)
		}
	}
}

// TestCourseOfSlowReadings: where reading always takes longer than an interval, several become one.
func TestCourseOfSlowReadings(t *testing.T) {
	c := &course{every: units.Millisecond, merged: 1, last: make([]reliability.Stats, 1)}
	c.stats = func() []reliability.Stats {
		c.before += 2 * units.Millisecond
		return make([]reliability.Stats, 1)
	}
	for range 1000 {
		c.sample(false)
	}
	require.Greater(t, len(c.spans), 50)
}

// TestMarkedCourse: the marks of the emulated link are in table, JSON and plot.
func TestMarkedCourse(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "marks.svg")
	p := start(t, "--loopback", "--addr", own(0), "--udp-port", "any", "--congestion", "bbr", "-s", "1MiB", "-n", "8", "--warmup", "0", "--rtt", "2ms",
		"--rate", "100mbit", "--queue", "1MiB", "--mark-above", "8KiB", "--ecn", "--interval", "10ms", "--json", "-", "--plot", plot)
	p.ends(t, waitLimit, 0)
	results(t, p) // the names
	var all []result.Result
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &all))
	require.Equal(t, 8*units.KiB, all[0].Link.MarkAboveBytes)
	marks := uint64(0)
	for _, v := range all[0].Congestion.Course {
		marks += v.Marks
	}
	require.Positive(t, marks)
	require.Positive(t, all[0].Packets.NPMarked)
	require.Contains(t, p.errors(), "marks above 8 KiB")
	require.Regexp(t, `marked +lost data\n(sdr-perf: .* done\n)*adaptive .* [0-9.]+% +\S+ ok`, p.errors())
	drawn, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "notified of marks")
}

// TestCourseBeginsAtZero: transfers that warm up, one at a time, are no part of the time that is counted.
func TestCourseBeginsAtZero(t *testing.T) {
	c := &course{}
	c.resume()
	c.resumed = c.resumed.Add(-time.Hour)
	c.pause()
	c.begin(units.Minute, func() []reliability.Stats { return counted(1) })
	c.resume()
	c.pause()
	c.end()
	require.Len(t, c.spans, 1)
	require.Less(t, c.spans[0].EndNs, units.Minute)
	require.Equal(t, c.spans[0].EndNs, c.spans[0].took)
}

// TestMarksNeedECN: who asks for marks is told what else it takes.
func TestMarksNeedECN(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "--udp-port", "any", "-s", "4KiB", "-n", "1", "--rate", "100mbit", "--mark-above", "32KiB")
	p.ends(t, waitLimit, 2)
	require.Contains(t, p.errors(), "give --ecn, too, at both ends")
}

// TestCourse: what two connections carry over time through a queue whose rate nobody told adds up to all that was measured, and is drawn.
func TestCourse(t *testing.T) {
	dir := t.TempDir()
	plot := filepath.Join(dir, "course.svg")
	for name, args := range map[string][]string{"together": {"-q", "2"}, "one by one": {}} {
		p := start(t, append(args, "--loopback", "--addr", own(0), "--udp-port", "any", "--congestion", "bbr", "-s", "128KiB", "-n", "16", "--warmup", "1",
			"--rtt", "2ms", "--rate", "200mbit", "--queue", "64KiB", "--interval", "5ms", "--json", "-", "--plot", plot)...)
		p.ends(t, waitLimit, 0)
		results(t, p) // the names
		var all []result.Result
		require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &all))
		r := &all[0]
		bits, before, sent := 0.0, units.Duration(0), uint64(0)
		for _, v := range r.Congestion.Course {
			require.Greater(t, v.EndNs, before)
			bits += float64(v.GoodputBps) * (v.EndNs - before).Seconds()
			before, sent = v.EndNs, sent+v.Sent
		}
		require.InEpsilon(t, 8*float64(r.Iterations)*float64(r.SizeBytes), bits, 1e-3, name)
		require.LessOrEqual(t, sent, r.Chunks.Sent, name)
		require.GreaterOrEqual(t, sent, uint64(r.Iterations)*uint64(r.SizeBytes/r.Chunks.UnitBytes), name)
		require.Positive(t, r.Congestion.MeanRateBps, name)
		require.Contains(t, p.errors(), "found", name)
		drawn, err := os.ReadFile(plot)
		require.NoError(t, err)
		require.Contains(t, string(drawn), "found by bbr", name)
		if r.QPs == 1 {
			require.Nil(t, r.Congestion.Jain)
			require.NotContains(t, p.errors(), "Jain")
			require.NotContains(t, string(drawn), "Jain")
			continue
		}
		require.Greater(t, *r.Congestion.Jain, 0.5-1e-9)
		require.Contains(t, p.errors(), "Jain")
		require.Contains(t, string(drawn), "of 2 connections")
	}
}
