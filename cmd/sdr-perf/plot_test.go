// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// plotted is a result of which a plot shows something.
func plotted(scheme string, size units.Bytes, inflight int, gbps float64) *result.Result {
	ideal := units.Duration(size)
	return &result.Result{
		Device: "userroce", MTU: 4096, Reliability: scheme, SizeBytes: size, Inflight: inflight, QPs: 1, Iterations: 9, ThroughputGbps: gbps,
		CompletionNs: result.Completion{Avg: 2 * ideal}, IdealNs: &ideal, Packets: result.Packets{Sent: 100},
	}
}

func linesOf(p *figures.ChartPanel) map[string][][]float64 {
	all := map[string][][]float64{}
	for _, l := range p.Lines {
		all[l.Name] = [][]float64{l.X, l.Y}
	}
	return all
}

// TestPlotHasAllPoints: whatever the order in which they were measured, each point is on the line of its scheme and size.
func TestPlotHasAllPoints(t *testing.T) {
	c, err := chartOf("inflight", []*result.Result{
		plotted("sr", 4096, 1, 1), plotted("sr", 65536, 1, 2), plotted("sr", 4096, 4, 3), plotted("sr", 65536, 4, 4),
		plotted("adaptive", 4096, 1, 5), plotted("adaptive", 65536, 1, 6), plotted("adaptive", 4096, 4, 7), plotted("adaptive", 65536, 4, 8),
	})
	require.NoError(t, err)
	x := []float64{1, 4}
	require.Equal(t, map[string][][]float64{
		"sr, 4 KiB": {x, {1, 3}}, "sr, 64 KiB": {x, {2, 4}}, "adaptive, 4 KiB": {x, {5, 7}}, "adaptive, 64 KiB": {x, {6, 8}},
	}, linesOf(&c.Panels[0]))

	c, err = chartOf("size", []*result.Result{plotted("sr", 3e6, 1, 1), plotted("sr", 1e6, 1, 1), plotted("sr", 4e6, 1, 1), plotted("sr", 2e6, 1, 1)})
	require.NoError(t, err)
	x = []float64{1e6, 2e6, 3e6, 4e6}
	require.Equal(t, map[string][][]float64{"sr": {x, {2, 4, 6, 8}}, "ideal": {x, {1, 2, 3, 4}}}, linesOf(&c.Panels[0]))
	require.Equal(t, x, c.Panels[0].X.Ticks)
}

// TestPlotHasZero: what is zero has a place of its own on a logarithmic axis.
func TestPlotHasZero(t *testing.T) {
	results := []*result.Result{plotted("sr", 1e6, 1, 1), plotted("sr", 1e6, 1, 1), plotted("sr", 1e6, 1, 1)}
	for i, drop := range []float64{0, 1e-2, 1e-3} {
		results[i].Link = &result.Link{Drop: drop}
	}
	c, err := chartOf("drop", results)
	require.NoError(t, err)
	x := c.Panels[0].Lines[0].X
	require.InDeltaSlice(t, []float64{1e-4, 1e-3, 1e-2}, x, 1e-9)
	require.Equal(t, "0", c.Panels[0].X.Format(x[0]))
	require.Equal(t, "0.001", c.Panels[0].X.Format(x[1]))
	c, err = chartOf("rate", append(results, func() *result.Result {
		r := plotted("sr", 1e6, 1, 1)
		r.Link = &result.Link{RateBps: units.Gbit}
		return r
	}()))
	require.NoError(t, err)
	require.Equal(t, "no limit", c.Panels[0].X.Format(c.Panels[0].Lines[0].X[1]))
	require.True(t, slices.IsSorted(c.Panels[0].X.Ticks), "or labels are left out as if they ran into each other: %v", c.Panels[0].X.Ticks)
}

// TestCourseWithoutLosses: where nothing was lost that is said, and no line runs along zero.
func TestCourseWithoutLosses(t *testing.T) {
	r := plotted("sr", 4096, 4, 1)
	r.Bidirectional, r.Link = true, &result.Link{RTTNs: units.Millisecond, RateBps: units.Gbit, QueueBytes: units.MiB}
	r.Congestion.Course = []result.Interval{{EndNs: 1e8, GoodputBps: 1e9, Sent: 100}, {EndNs: 2e8, GoodputBps: 1e9, Sent: 100}}
	c, err := courseChart([]*result.Result{r})
	require.NoError(t, err)
	require.Len(t, c.Panels, 1)
	require.Equal(t, "sr, 4 KiB, userroce, MTU 4096, 4 transfers under way on 1 connection, both directions; "+
		"emulated link: RTT 1 ms, 1 Gbit/s, queue 1 MiB; nothing lost or marked", c.Subtitle)
	r.Congestion.Course[1].LostQueue = 3
	c, err = courseChart([]*result.Result{r})
	require.NoError(t, err)
	require.Equal(t, map[string][][]float64{"lost by a full queue": {{0.1, 0.2}, {0, 3}}}, linesOf(&c.Panels[1]))
	require.NotContains(t, c.Subtitle, "lost")
	r.Congestion.Course[1].LostQueue, r.Packets.LostUnseen = 0, 1
	c, err = courseChart([]*result.Result{r})
	require.NoError(t, err)
	require.NotContains(t, c.Subtitle, "nothing lost")
}

// TestTicksAreRound: an axis has at least three round values, however little of a decade it spans.
func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		values, ticks []float64
	}{
		{[]float64{4.84, 3.475, 3.072}, []float64{3.5, 4, 4.5}},
		{[]float64{1, 4}, []float64{1, 2, 3, 4}},
		{[]float64{1.003, 1.0215}, []float64{1.005, 1.01, 1.015, 1.02}},
		{[]float64{0.1, 3}, []float64{0.1, 0.2, 0.5, 1, 2}},
		{[]float64{2e-3, 900}, []float64{0.01, 0.1, 1, 10, 100}},
		{[]float64{7, 7}, []float64{7}},
		{nil, nil},
	} {
		at := ticks([]figures.Series{{Y: c.values}})
		require.Len(t, at, len(c.ticks), "%v", at)
		for i := range at {
			require.InEpsilon(t, c.ticks[i], at[i], 1e-9)
		}
	}
}

// TestPlotIsRefused: what can't be drawn is known before anything is measured.
func TestPlotIsRefused(t *testing.T) {
	plot := " --plot " + filepath.Join(t.TempDir(), "x.svg")
	for args, says := range map[string]string{
		"-s 4k -D 50ms": "is longer than --duration",
		"-s 4k --reliability sr,sr-nack,none,ec-mds,ec-xor":                    "5 schemes and sizes are too many",
		"-s 1k,2k,3k,4k,5k --sweep inflight=4":                                 "5 schemes and sizes are too many",
		"-s 0,4k -t 4":                                                         "fewer than two points",
		"-s 1k,2k,3k,4k,5k --reliability sr,sr-nack,none --sweep drop=0.1,0.2": "15 lines",
		"-s 4k -D 50ms --interval 10ms":                                        "",
		"-s 1k,2k,3k,4k --sweep inflight=4":                                    "",
		"-s 0,4k":                                                              "",
		"-s 64k,4k":                                                            "",
		"-s 1k,2k,3k,4k --reliability sr,sr-nack,none --sweep drop=0.1,0.2 --rtt 1ms": "",
	} {
		_, _, err := asked("--loopback " + args + plot)
		if says == "" {
			require.NoError(t, err, args)
			continue
		}
		require.ErrorContains(t, err, says, args)
		require.True(t, isUsage(err), args)
	}
}
