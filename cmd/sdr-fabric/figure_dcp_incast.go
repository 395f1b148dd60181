// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// Figure 16 of DCP's paper, with bar 5 of the design: WebSearch's messages beside incasts, without and with congestion control.

// dcp16Schemes are without and with DCQCN; MP-RDMA has a control of its own and is the same in both. The paper's control gives DCP a window
// (awin, section 4.3, which bounds repeats and new packets alike), without one DCP has none: so the paper's "DCP with DCQCN" is the one with a
// window, and that without is shown beside it.
var dcp16Schemes = []dcpScheme{
	schemeDCP, schemeMPRDMA, schemeIRNAR, schemeDCP.withDCQCN(), schemeIRNAR.withDCQCN(), schemeDCPWindow.withDCQCN(),
}

// dcp16Sizes are what each sender of an incast sends: the paper doesn't say, so several are shown, of those of which three incasts
// or more come on average. The load of the incasts is the same.
func dcp16Sizes(o figureOptions) (sizes []units.Bytes) {
	all := 0.05 * 256 * 100e9 / 8 * float64(arrivalTime(o)) / 1e9
	for _, size := range []units.Bytes{16 * units.KiB, 64 * units.KiB, 256 * units.KiB, units.MiB} {
		if o.takes(size) && (float64(size)*128*3 <= all || size == 16*units.KiB) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

var dcp16 = dcpFigure{
	name: "16", title: "WebSearch at 0.5, incasts of 128 at 0.05", class: "P99 slowdown",
	x: figures.ChartAxis{
		Label: "size of each sender's part of an incast", Quantity: "bytes", Ticks: []float64{16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20},
		Format: func(v float64) string { return units.Bytes(v).String() },
	},
	y: figures.ChartAxis{Label: "P99 of the slowdown", Quantity: "slowdown", Ticks: []float64{10, 20, 50, 100, 200, 500, 1000}},
	beside: []dcpPanel{
		{"WebSearch's messages alone", "P99 slowdown" + webSearchAlone.name, figures.ChartAxis{Label: "P99 of the slowdown", Quantity: "slowdown", Ticks: []float64{10, 20, 50, 100, 200, 500, 1000}}},
	},
	runs: func(o figureOptions) (runs []dcpRun) {
		for _, size := range dcp16Sizes(o) {
			load := fmt.Sprintf("%s;burst:128,%d,0.05,%dns", webSearch(o, 0.5), size, arrivalTime(o))
			runs = append(runs, compared(o, fmt.Sprintf("%d.", size), load, dcp16Schemes...)...)
		}
		return runs
	},
	points: func(o figureOptions, r map[string]*report) (points []point) {
		for _, size := range dcp16Sizes(o) {
			for _, of := range dcp16Populations {
				slow := func(key string) slowdowns { return of.slow(r[fmt.Sprintf("%d.%s", size, key)]) }
				for _, c := range dcp16Schemes {
					s := slow(c.key)
					points = append(points, point{Name: c.name, Class: "P50 slowdown" + of.name, X: float64(size), Ours: s.P50}, point{Name: c.name, Class: "P99 slowdown" + of.name, X: float64(size), Ours: s.P99})
				}
				for _, c := range dcp16Changes { // the paper has DCP's P50 the lowest without control and with it
					points = append(points, point{Name: c.name, Class: "change of P50, %" + of.name, X: float64(size), Ours: 100 * (slow(c.ours).P50/slow(c.theirs).P50 - 1)})
				}
			}
			for _, reading := range dcp16Readings {
				for _, c := range dcp16Changes {
					of := func(key string) slowdowns { return reading.of.slow(r[fmt.Sprintf("%d.%s", size, key)]) }
					p := point{Name: c.name, Class: reading.class(), X: float64(size), Ours: reading.change(of(c.ours), of(c.theirs)), Paper: c.paper}
					if reading.held && o.claims() {
						p.Low, p.High = c.low, c.high
					}
					points = append(points, p)
				}
			}
		}
		return points
	},
	verdict: dcp16Verdict,
}

// dcp16Verdict counts, for each reading and size of incasts, in how many comparisons the paper's sentence holds.
func dcp16Verdict(o figureOptions, points []point) (rows []point) {
	for _, size := range dcp16Sizes(o) {
		for _, reading := range dcp16Readings {
			row, of := point{Name: reading.class(), X: float64(size), OK: true}, 0
			for _, c := range dcp16Changes {
				if c.low == nil && c.high == nil {
					continue
				}
				of++
				i := slices.IndexFunc(points, func(p point) bool { return p.Name == c.name && p.Class == row.Name && p.X == row.X })
				p := points[i]
				if p.Low, p.High = c.low, c.high; p.keeps() {
					row.Ours++
				}
			}
			row.Class = fmt.Sprintf("bar 5: holds, of %d", of)
			rows = append(rows, row)
		}
	}
	return rows
}

// A population is of whose messages the slowdowns are.
type population struct {
	name string
	slow func(*report) slowdowns
}

var webSearchAlone = population{" of WebSearch's messages", func(r *report) slowdowns { return r.Groups["0"].Slowdown }}

var dcp16Populations = []population{
	{"", func(r *report) slowdowns { return r.Slowdown }},
	webSearchAlone,
	{" of incasts' messages", func(r *report) slowdowns { return r.Groups["1"].Slowdown }},
}

// A dcp16Reading is of what "P99 FCT slowdown" may be: of all messages that are meant, or in the mean over twentieths of them by size; and of
// whose messages, for which the paper says "under the incast workload" only.
//
// Held is the one that sources speak for. The paper's appendix finds in figure 15, of the same kind, that "some large flows perform exceptionally well",
// so that it draws curves over sizes. The script that makes such curves in the simulators of its lineage (fct_analysis.py of HPCC's, and of SRNIC's,
// whose authors are of the same group) has P99 in each twentieth by size, of "normal" messages unless told otherwise, not of the incasts'.
type dcp16Reading struct {
	of     population
	bySize bool
	held   bool
}

var dcp16Readings = func() (all []dcp16Reading) {
	for _, of := range dcp16Populations {
		all = append(all, dcp16Reading{of: of}, dcp16Reading{of: of, bySize: true, held: of.name == webSearchAlone.name})
	}
	return all
}()

func (r dcp16Reading) class() string {
	if r.bySize {
		return "mean change of P99 over twentieths by size, %" + r.of.name
	}
	return "change of P99, %" + r.of.name
}

func (r dcp16Reading) change(a, b slowdowns) float64 {
	if r.bySize {
		return meanChange(a, b, func(s sizeSlow) float64 { return s.P99 })
	}
	return 100 * (a.P99/b.P99 - 1)
}

// A dcp16Change compares DCP with a rival by their keys.
type dcp16Change struct {
	name, ours, theirs string
	paper              *float64
	// low and high bound what bar 5 claims, if anything: without control DCP's P99 is the worst, with DCQCN, and the window of that, the best.
	low, high *float64
}

var dcp16Changes = []dcp16Change{
	{name: "DCP against IRN, both without DCQCN", ours: "dcp", theirs: "irn-ar", low: number(0)},
	{name: "DCP against MP-RDMA", ours: "dcp", theirs: "mprdma", low: number(0)},
	{name: "DCP with a window against IRN, both with DCQCN", ours: "dcp-window-cc", theirs: "irn-ar-cc", paper: number(-29), high: number(0)},
	{name: "DCP with a window and DCQCN against MP-RDMA", ours: "dcp-window-cc", theirs: "mprdma", paper: number(-31), high: number(0)},
	{name: "DCP against IRN, both with DCQCN", ours: "dcp-cc", theirs: "irn-ar-cc"},
	{name: "DCP with DCQCN against MP-RDMA", ours: "dcp-cc", theirs: "mprdma"},
}
