// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// The longest completion of a permutation of 8192 hosts with NSCC beside what ultraethernet/uet-htsim has stored of its
// own runs (htsim/sim/datacenter/results, 128 paths): the published oracle for a descendant of STrack. Those
// runs were made with two states of that simulator, before and after 29 July 2024, which differ by up to 60 % from each
// other: commits f1f54d0 (30 July) and 1af36c4 (2 August) stored them. What they have in common at 400 Gbit/s are queues of 100
// packets of 4150 bytes, marks from 25 to 75, windows of 150, and trimming. At 200 and 800 Gbit/s these are half and twice as many.
// Both states increased and averaged by the rules that congestion.NSCCConfig calls Draft; the constants of the second are nearer to
// version 1.0. So ours are run by version 1.0, and by the draft's rules for the second.

var nsccSizes = []units.Bytes{1 * units.MB, 2 * units.MB, 4 * units.MB, 8 * units.MB, 16 * units.MB, 32 * units.MB, 64 * units.MB, 100 * units.MB}

// An nsccTable is two of those files.
type nsccTable struct {
	name, title string
	rate        units.Rate
	oversub     int
	slow        bool // one spine's links have a quarter of the rate
	// What is stored, in µs, by nsccSizes: of the first state, by f1f54d0, and in files whose names end with _2 of the second, by
	// 1af36c4.
	first, second []float64
}

var nsccTables = []nsccTable{
	{
		"nscc:400g", "NSCC, permutation at 400 Gbit/s", 400 * units.Gbit, 1, false,
		[]float64{35.3925, 56.2623, 99.4849, 185.886, 386.269, 806.828, 1615.25, 2591.89},
		[]float64{34.2567, 58.9997, 106.265, 221.307, 449.86, 911.87, 1750.74, 2728.31},
	},
	{
		"nscc:400g-4to1", "NSCC, permutation, 4:1 oversubscribed", 400 * units.Gbit, 4, false,
		[]float64{188.297, 266.247, 446.226, 827.219, 1558.45, 2928.4, 6059.92, 9492.36},
		[]float64{117.409, 219.658, 410.116, 789.193, 1531.17, 2972.62, 5818.17, 9119.03},
	},
	{
		"nscc:400g-8to1", "NSCC, permutation, 8:1 oversubscribed", 400 * units.Gbit, 8, false,
		[]float64{240.24, 428.086, 779.272, 1460.53, 2814.59, 5551.52, 10961.4, 17003.8},
		[]float64{208.57, 385.516, 738.879, 1455.51, 2840.41, 5618.16, 11107.8, 17219.7},
	},
	{
		"nscc:400g-slow", "NSCC, permutation, one spine at a quarter of the rate", 400 * units.Gbit, 1, true,
		[]float64{45.3936, 66.1948, 113.463, 217.91, 473.655, 1032.53, 2037.45, 3337.01},
		[]float64{45.3936, 66.1948, 112.675, 219.386, 466.136, 969.751, 1861.27, 2895.0},
	},
	{
		"nscc:200g", "NSCC, permutation at 200 Gbit/s", 200 * units.Gbit, 1, false,
		[]float64{58.8088, 101.958, 188.485, 363.502, 717.164, 1423.16, 2825.87, 4725.94},
		[]float64{60.7779, 107.186, 204.536, 436.588, 937.332, 1822.5, 3608.09, 5542.31},
	},
	{
		"nscc:800g", "NSCC, permutation at 800 Gbit/s", 800 * units.Gbit, 1, false,
		[]float64{22.1351, 35.8371, 55.0616, 98.8893, 186.384, 405.447, 851.246, 1382.57},
		[]float64{22.1422, 32.2059, 58.1183, 107.273, 215.863, 455.412, 886.472, 1385.24},
	},
}

const (
	nsccPacket = units.Bytes(4150) // on the wire
	nsccHeader = units.Bytes(64)
	// What is stored holds to so much, up to nsccSmall and beyond.
	nsccClose, nsccFar = 0.05, 0.10
	nsccSmall          = 8 * units.MB
)

// Ours are by version 1.0 or by the draft's rules.
const (
	nsccFinal = ""
	nsccDraft = "draft."
)

func (t nsccTable) scenario(o figureOptions, rules string, size units.Bytes) scenario {
	s := defaultScenario()
	side := o.side()
	leaves := 2 * side
	if o.scale < 1 {
		leaves = side
	}
	s.Topo = fmt.Sprintf("leafspine:%dx%dx%d,%dG,1us", leaves, side, side, t.rate/units.Gbit)
	queue, markMin, markMax := t.queue()
	s.ECN = fmt.Sprintf("%d,%d,1", markMin, markMax)
	if t.oversub > 1 {
		s.Topo += fmt.Sprintf(",oversub=%d", t.oversub)
	}
	if t.slow {
		s.Topo += ",slow=1x4"
		s.ECN += fmt.Sprintf(";%d,%d,1@%dG", markMin/4, markMax/4, t.rate/units.Gbit/4)
	}
	s.Load, s.Seed = fmt.Sprintf("perm:%d", size), o.seed
	s.MTU, s.Header, s.AckSize = nsccPacket-nsccHeader, nsccHeader, nsccHeader
	s.Transport, s.CC, s.Routing, s.Buffer = "uet", "none", "entropy", "endless"
	if rules == nsccDraft {
		s.CC = "nscc:draft"
	}
	s.Trim = fmt.Sprintf("%d,w=1000,threshold=%d", nsccHeader, queue)
	if t.slow {
		s.Trim += fmt.Sprintf("@%dG", t.rate/units.Gbit)
	}
	return s
}

// queue is how much waits at most, and where marks begin and where all are marked: that simulator's -q and -ecn, a quarter of
// which the links of a slow spine have.
func (t nsccTable) queue() (most, markMin, markMax units.Bytes) {
	perQueue := 100 * int64(t.rate) / int64(400*units.Gbit)
	packets := func(n int64) units.Bytes { return units.Bytes(n) * nsccPacket }
	return packets(perQueue), packets(perQueue / 4), packets(perQueue * 3 / 4)
}

func (t nsccTable) run(o figureOptions, rules string, size units.Bytes) string {
	return fmt.Sprintf("%s.scale%.4g.seed%d.%s%d", figure{name: t.name, chart: t.chart}.file(), o.scale, o.seed, rules, size)
}

func (t nsccTable) runs(o figureOptions) (runs []sweepRun) {
	for _, size := range o.taken(nsccSizes) {
		for _, rules := range []string{nsccFinal, nsccDraft} {
			runs = append(runs, sweepRun{t.run(o, rules, size), t.scenario(o, rules, size), float64(size)})
		}
	}
	return runs
}

func (t nsccTable) points(o figureOptions, r map[string]*report) (points []point) {
	for _, size := range o.taken(nsccSizes) {
		i := slices.Index(nsccSizes, size)
		ours, draft := r[t.run(o, nsccFinal, size)].FCT.Max/1000, r[t.run(o, nsccDraft, size)].FCT.Max/1000
		x := float64(size)
		points = append(points, point{Name: "ours, 1.0; htsim before 29 July 2024", Class: "µs", X: x, Ours: ours, Paper: number(t.first[i])},
			point{Name: "ours, draft; htsim after it", Class: "µs", X: x, Ours: draft, Paper: number(t.second[i])})
		before, after := ours/t.first[i], ours/t.second[i]
		points = append(points, point{Name: "1.0 over htsim's before", Class: "ratio", X: x, Ours: before, Paper: number(1)},
			point{Name: "1.0 over htsim's after", Class: "ratio", X: x, Ours: after, Paper: number(1)})
		part := nsccClose
		if size > nsccSmall {
			part = nsccFar
		}
		nearer := point{Name: "1.0 over the nearer one", Class: "nearer", X: x, Ours: before}
		if math.Abs(after-1) < math.Abs(before-1) {
			nearer.Ours = after
		}
		second := point{Name: "draft over htsim's after", Class: "ratio", X: x, Ours: draft / t.second[i], Paper: number(1)}
		if o.full() {
			nearer, second = nearer.within(1-part, 1+part), second.within(1-part, 1+part)
		}
		points = append(points, nearer, second)
	}
	return points
}

func (t nsccTable) chart(o figureOptions, points []point) figures.Chart {
	x := figures.ChartAxis{Label: "message size", Quantity: "bytes", Format: func(v float64) string { return fmt.Sprintf("%g MB", v/1e6) }}
	for _, s := range o.taken(nsccSizes) {
		x.Ticks = append(x.Ticks, float64(s))
	}
	return figures.Chart{
		Title:    t.title,
		Subtitle: fmt.Sprintf("%s, seed %d", t.scenario(o, nsccFinal, nsccSizes[0]).Topo, o.seed),
		Dotted:   "stored by uet-htsim",
		Panels: []figures.ChartPanel{
			{
				Title: "(a) longest completion time", X: x, Lines: nsccLines(points),
				Y: figures.ChartAxis{Label: "µs", Quantity: "fct_us", Ticks: []float64{10, 100, 1000, 10_000}},
			},
			{
				Title: "(b) ratio", X: x, Lines: oursOf(points, "ratio"),
				Y: figures.ChartAxis{Label: "ratio", Quantity: "ratio", Linear: true, Ticks: []float64{0, 0.5, 1, 1.5}},
			},
		},
	}
}

// nsccLines are ours and what is stored, each by its own name: points have both names in one.
func nsccLines(points []point) []figures.Series {
	all := linesBeside(points, "µs", "")
	for i := range all {
		ours, stored, _ := strings.Cut(strings.TrimSuffix(all[i].Name, ", "), "; ")
		if all[i].Name = ours; all[i].Paper {
			all[i].Name = strings.Replace(stored, "after it", "after 29 July 2024", 1)
		}
	}
	return all
}

// oursOf are the lines of a class without what they are held against.
func oursOf(points []point, class string) []figures.Series {
	return slices.DeleteFunc(linesBeside(points, class, ""), func(s figures.Series) bool { return s.Paper })
}

func nsccFigures() (all []figure) {
	for _, t := range nsccTables {
		all = append(all, figure{name: t.name, title: t.title, runs: t.runs, points: t.points, chart: t.chart})
	}
	return all
}
