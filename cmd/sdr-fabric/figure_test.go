// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// An incast as its samples have it: the last hop is full and has a queue, hosts send what it carries, and the first flow's
// sender hears a mark before its round trip grows.
func TestSamples(t *testing.T) {
	out, err := command(t, "run", "--topo", "star:9,400G,1us", "--load", "incast:8,4MB", "--transport", "strack:base=4us,ack=1", "--routing", "entropy",
		"--ecn", "50kB,150kB,1", "--sample", "20us", "--json", "-", "--check")
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	s := r.Samples
	steps := len(s.QueueNS)
	require.InDelta(t, r.SimulatedNS/20_000, steps, 1)
	require.Len(t, s.FlowGbps, 8)
	sum, arrived, queue := 0.0, 0.0, 0.0
	for i := 2; i < steps-4; i++ {
		arrived, queue = arrived+s.ArrivalGbps[i]/float64(steps-6), queue+s.QueueNS[i]/float64(steps-6)
		require.Equal(t, s.QueueNS[i], s.LastHopNS[i])
		for _, f := range s.FlowGbps {
			sum += f[i] / float64(steps-6)
		}
	}
	require.InDelta(t, 400, sum, 20)
	require.InDelta(t, 400, arrived, 20)
	require.InDelta(t, 4000, queue, 2000, "the target is a round trip")
	marked, grown := -1, -1
	for i, g := range s.Signals {
		if g.ECN && marked < 0 {
			marked = i
		}
		if g.RTTNS > 2*s.Signals[0].RTTNS && grown < 0 {
			grown = i
		}
	}
	require.GreaterOrEqual(t, marked, 0)
	require.Greater(t, grown, marked)
}

// A run that is ended within a step has the rates of what there was of it: a sender alone fills its line to the end.
func TestLastStepIsShorter(t *testing.T) {
	out, err := command(t, "run", "--topo", "star:3,100G,1us", "--load", "incast:1,10MB", "--sample", "20us", "--until", "205us", "-q", "--json", "-")
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Len(t, r.Samples.QueueNS, 11)
	for i := 1; i < 11; i++ {
		require.InDelta(t, 100, r.Samples.FlowGbps[0][i], 8, "step %d", i) // a packet more or less in 5 µs
		require.InDelta(t, 100, r.Samples.ArrivalGbps[i], 16, "step %d", i)
	}
}

// What a host sends counts by whichever NIC it leaves.
func TestSamplesOfRails(t *testing.T) {
	out, err := command(t, "run", "--topo", "leafspine:2x4x2,100G,1us,rails=2", "--load", "perm:20MB,qps=2", "--sample", "100us", "-q", "--json", "-")
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	for i, f := range r.Samples.FlowGbps {
		require.InDelta(t, 200, f[2], 1, "the host of flow %d", i)
	}
}

// When something was last more than a bound is the end of its step; drawn is the most of several steps, the last ones fewer.
func TestStepsOverTime(t *testing.T) {
	require.InDelta(t, 6, lastAbove(2000, []uint64{7, 0, 1, 0}, 0), 0)
	require.Zero(t, lastAbove(2000, []float64{3, 8, 8}, 8))
	require.Equal(t, []float64{5, 9, 1}, longest([]float64{5, 2, 3, 9, 1}, 2))
}

// A drawing of several seeds' means says so.
func TestSubtitleNamesSeeds(t *testing.T) {
	for _, f := range allFigures {
		if !slices.Contains([]string{"strack:1", "strack:9", "strack:19", "strack:21", "strack:23", "strack:beyond"}, f.name) {
			continue
		}
		require.Contains(t, f.chart(figureOptions{scale: 0.125, seed: 3, seeds: 5}, nil).Subtitle, "means of seeds 3 to 7, bars: least and greatest", f.name)
		require.Contains(t, f.chart(figureOptions{scale: 0.125, seed: 3, seeds: 1}, nil).Subtitle, "seed 3", f.name)
	}
}

// What stands beside NSCC is no paper's.
func TestBesideHtsim(t *testing.T) {
	stored := 2.0
	all := linesBeside([]point{{Name: "ours", Class: "µs", X: 1, Ours: 1, Paper: &stored}}, "µs", "stored")
	require.Len(t, all, 2)
	require.Equal(t, "ours, stored", all[1].Name)
	require.True(t, all[1].Paper, "drawn dotted")
}

// Sizes stand at the axis as the paper has them.
func TestSizesAtTheAxis(t *testing.T) {
	require.Equal(t, "100 MB", sizeLabel(float64(strackLargest)))
	require.Equal(t, "16 MiB", sizeLabel(16<<20))
	require.Equal(t, "4 KiB", sizeLabel(4<<10))
}

// The legend of NSCC's figures names each line for itself, and what is stored by its time.
func TestLegendOfNSCC(t *testing.T) {
	table, o := nsccTables[0], figureOptions{scale: 1, sizes: nsccSizes[:1]}
	r := map[string]*report{}
	for _, run := range table.runs(o) {
		r[run.name] = &report{FCT: distribution{Max: 35_000}}
	}
	var legend []string
	for _, panel := range table.chart(o, table.points(o, r)).Panels {
		for _, line := range panel.Lines {
			legend = append(legend, line.Name)
		}
	}
	require.Equal(t, []string{
		"ours, 1.0", "htsim before 29 July 2024", "ours, draft", "htsim after 29 July 2024",
		"1.0 over htsim's after", "1.0 over htsim's before", "draft over htsim's after",
	}, legend)
}

// What figures took adds up, over folders and files, and of some figures alone.
func TestTotal(t *testing.T) {
	dir := t.TempDir()
	for name, f := range map[string]figureFile{
		"strack-9.json": {Figure: "strack:9", Scale: 1, Seeds: 1, Events: 3_000_000, WallS: 61.5, RSSBytes: 1 << 20},
		"strack-8.json": {Figure: "strack:8", Scale: 1, Seeds: 5, Events: 1_000_000, WallS: 30, RSSBytes: 3 << 20},
		"dcp-10.json":   {Figure: "dcp:10", Scale: 0.125, Seeds: 1, Events: 7, WallS: 1, RSSBytes: 9 << 20},
		"strack-1.json": {Figure: "strack:1", Scale: 0.125},
		"other.json":    {},
	} {
		require.NoError(t, result.Write(nil, filepath.Join(dir, name), f))
	}
	out, err := command(t, "total", dir, "--only", "strack:")
	require.NoError(t, err)
	require.Regexp(t, `  strack-1 +0\.125 +0 +not known`, out)
	require.Regexp(t, `  strack-9 +1 +1 +3\.0 M +1m1\.5s +1 MiB`, out)
	require.Regexp(t, `all +4\.0 M +1m31\.5s +3 MiB`, out)
	require.NotContains(t, out, "dcp")
	out, err = command(t, "total", filepath.Join(dir, "dcp-10.json"), filepath.Join(dir, "strack-8.json"), "--json", "-")
	require.NoError(t, err)
	var sum total
	require.NoError(t, json.Unmarshal([]byte(out), &sum))
	require.Equal(t, uint64(1_000_007), sum.Events)
	require.InDelta(t, 31, sum.WallS, 1e-9)
	require.Equal(t, int64(9<<20), sum.RSSBytes)
	require.Len(t, sum.Figures, 2)
	_, err = command(t, "total", dir, "--only", "nscc:")
	require.ErrorContains(t, err, "name a folder that figure --out has written to")
}

// Rows of one figure with other seeds, and of a figure and a table of one name, are told apart, within the columns that there are.
func TestTotalNamesFiles(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join("a", "folder", "with", "a", "name", "too", "long", "for", "a", "row")
	for name, f := range map[string]figureFile{
		"dcp-1.json": {Figure: "dcp:1"}, "dcp-table1.json": {Figure: "dcp:1"},
		"full/dcp-1.json": {Figure: "dcp:1"}, "full/seed2/dcp-1.json": {Figure: "dcp:1"}, filepath.Join(deep, "dcp-1.json"): {Figure: "dcp:1"},
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, result.Write(nil, filepath.Join(dir, name), f))
	}
	out, err := command(t, "total", filepath.Join(dir, "full"), filepath.Join(dir, "full", "seed2"), dir, filepath.Join(dir, deep))
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), usage.Columns+1)
		names = append(names, strings.Fields(line)[0])
	}
	require.Equal(t, []string{"file", "full/dcp-1", "full/seed2/dcp-1", "dcp-1", "dcp-table1", "…too/long/for/a/row/dcp-1", "all"}, names)
	out, err = command(t, "total", filepath.Join(dir, "full", "dcp-1.json"))
	require.NoError(t, err)
	require.Regexp(t, `\n +dcp-1 `, out)
}

// A figure has the sizes of messages that it is asked for, and no others.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	_, err := command(t, "figure", "strack:19", "--scale", "1/64", "--sizes", "4KiB,512KiB,100MB", "--largest", "1MB", "-q", "-o", dir)
	require.NoError(t, err)
	var f figureFile
	require.NoError(t, readJSON(filepath.Join(dir, "strack-19.json"), &f))
	sizes := map[float64]bool{}
	for _, p := range f.Points {
		sizes[p.X] = true
	}
	require.Equal(t, map[float64]bool{4096: true, 512 * 1024: true}, sizes)
	require.Equal(t, []units.Bytes{64 * units.KiB}, dcp16Sizes(figureOptions{scale: 1, largest: 256 * units.KiB, sizes: []units.Bytes{64 * units.KiB, units.MiB}}))
	require.Len(t, dcp16Sizes(figureOptions{scale: 1}), 4)
}

// What is stored by size is found by size, whichever are run.
func TestNSCCSizes(t *testing.T) {
	o := figureOptions{scale: 1, seed: 1, seeds: 1, sizes: []units.Bytes{4 * units.MB}}
	table := nsccTables[0]
	rep := new(report)
	points := table.points(o, map[string]*report{table.run(o, nsccFinal, 4*units.MB): rep, table.run(o, nsccDraft, 4*units.MB): rep})
	require.InDelta(t, 99.4849, *points[0].Paper, 1e-9)
	require.InDelta(t, 106.265, *points[1].Paper, 1e-9)
}

// Of several seeds a value is the mean, and bounds hold for each.
func TestSeeds(t *testing.T) {
	at := func(v float64) []point {
		return []point{point{Name: "a", X: 1, Ours: v}.within(1, 3), {Name: "only here", X: v, Ours: 1}}
	}
	for _, c := range []struct {
		values []float64
		ok     bool
	}{{[]float64{1, 2, 3}, true}, {[]float64{2, 2, 3.5}, false}, {[]float64{0.5, 2, 2}, false}} {
		var all [][]point
		for _, v := range c.values {
			all = append(all, at(v))
		}
		points := overSeeds(all, false)
		require.Len(t, points, 1, "what only one seed has is left out")
		require.Equal(t, c.ok, points[0].keeps())
		require.InDelta(t, (c.values[0]+c.values[1]+c.values[2])/3, points[0].Ours, 1e-9)
		require.Equal(t, slices.Min(c.values), *points[0].Min)
		require.Equal(t, slices.Max(c.values), *points[0].Max)
	}
}

// The interval of the mean decides where a figure says so: seeds that are each within the bounds may leave it open, and one that isn't may not. It is printed, stored
// and drawn; of one seed there is none.
func TestIntervals(t *testing.T) {
	at := func(v float64) []point { return []point{point{Name: "a", Class: "c", X: 1, Ours: v}.within(1, 3)} }
	for _, c := range []struct {
		values  []float64
		verdict string
	}{{[]float64{1, 2, 3}, "crosses"}, {[]float64{2, 2.01, 1.99}, "ok"}, {[]float64{4, 4.01, 4.02}, "OUT"}, {[]float64{2.9, 2.9, 2.9, 2.9, 2.9, 2.9, 2.9, 3.01}, "ok"}} {
		var all [][]point
		for _, v := range c.values {
			all = append(all, at(v))
		}
		points := overSeeds(all, true)
		points[0].OK = points[0].keeps()
		require.Equal(t, c.verdict, points[0].verdict(), "%v: %s", c.values, points[0].interval())
	}
	points := overSeeds([][]point{at(1), at(2), at(3)}, true)
	require.InDelta(t, 2-2.484, *points[0].MeanLow, 2e-3, "4.303 / √3")
	require.InDelta(t, 2+2.484, *points[0].MeanHigh, 2e-3)
	drawn := lines(points, "c")[0]
	require.Equal(t, []float64{*points[0].MeanLow}, drawn.Low)
	require.Equal(t, []float64{*points[0].MeanHigh}, drawn.High)
	var out bytes.Buffer
	printPoints(&out, points, true)
	require.Regexp(t, `95 % of the mean\n.* 2 .* -0\.484\S* … 4\.48\S*\n`, out.String())
	require.Contains(t, string(pointsCSV(points)), ",mean_low,mean_high\n")
	out.Reset()
	printPoints(&out, at(2), false)
	require.NotContains(t, out.String(), "95 %")
}

// Figure 15's memory for switches that pause is that of 32 long links' headrooms, three times rate and delay each, to the byte; and its readings with
// the memory of headrooms leave next to nothing to share: with 0.25 MB less there isn't enough for them.
func TestFarMemory(t *testing.T) {
	for _, d := range distances {
		var buffer units.Bytes
		require.NoError(t, buffer.Set(d.buffer))
		require.Equal(t, 32*3*(100*units.Gbit).Bytes(d.delay), buffer)
		for _, c := range dcp15Schemes {
			s := dcpNetwork(figureOptions{scale: 1, seed: 1, seeds: 1})
			c.on(d, &s)
			require.Equal(t, c.nothing, strings.HasSuffix(s.Buffer, ",pfc,headroom=ns3"), c.key)
			require.Equal(t, c.first == 1, strings.HasSuffix(s.Transport, ",initial=1"), c.key)
			g, err := s.graph()
			require.NoError(t, err)
			cfg, err := s.config()
			require.NoError(t, err)
			_, err = fabric.New(g, cfg)
			require.NoError(t, err, c.key)
			if c.nothing {
				cfg.Buffer.Size -= 250_000
				_, err = fabric.New(g, cfg)
				require.ErrorContains(t, err, "leave nothing to share beside", c.key)
			}
		}
	}
}

// Of two flows of 100 Gbit that share 119 Gbit/s the first ends after a second, and the other sends what is left of it at its port's 100 Gbit/s, less
// headers.
func TestWhileBoth(t *testing.T) {
	r := &report{PayloadBytes: 25e9}
	r.FCT.P50, r.FCT.Max = 1e9, 1e9*(1+81*1.048/100)
	r.GoodputGbps = 200e9 / r.FCT.Max
	require.InDelta(t, 119, whileBoth(r), 1e-9)
	r.FCT.Max, r.GoodputGbps = 100e9, 2
	require.Equal(t, 2.0, whileBoth(r), "one that stood still says nothing")
}

// Looking at a run changes nothing that it counts: the first flow's sender, which is traced, is one that counts.
func TestSamplingCounts(t *testing.T) {
	var counted [2]packetCounts
	for i, more := range [][]string{{}, {"--sample", "20us"}} {
		out, err := command(t, append([]string{"run", "--topo", "star:3,100G,1us", "--load", "incast:1,1MB", "--transport", "strack", "--forced", "0.02", "--json", "-"}, more...)...)
		require.NoError(t, err)
		var r report
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		counted[i] = r.Packets
	}
	require.EqualValues(t, 1, counted[0].Repeating)
	require.Equal(t, counted[0], counted[1])
}
