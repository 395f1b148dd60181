// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// themisNetwork is the set-up of THEMIS's evaluation as its authors' simulator has it: packets of
// 1000 bytes and 48 of headers, 32 MB of buffer with PFC, but endless memory at the edge switches;
// thresholds of ECN by the port's rate.
func themisNetwork() scenario {
	s := defaultScenario()
	s.Topo, s.Transport, s.CC, s.Routing = "dc2", "gbn", "dcqcn:hpcc", "ecmp:murmur"
	s.MTU, s.Header, s.AckSize, s.PauseSize = 1000, 48, 60, 44
	s.Buffer = "32MiB,pfc,headroom=ns3,deep=48+49"
	s.ECN = "400kB,1600kB,0.2@100G;800kB,6400kB,0.2@400G;1600kB,25600kB,0.2@1.6T"
	return s
}

const (
	themisArrivals = 30 * units.Millisecond
	nearby         = "1us"
)

var themisLoads = []float64{0.3, 0.5, 0.7}

func themisRun(load float64, distance string) string {
	return fmt.Sprintf("themis-lh-2.load%g.%s", load, distance)
}

// themisPublished are the averages of the paper's DCQCN column (figure 2 and the text of sections II
// and VII) by load: far and intra, far and inter, near and intra, near and inter.
var themisPublished = map[float64][4]*float64{
	0.3: {number(5.21), number(1.15), nil, nil},
	0.5: {number(14.0), number(1.46), nil, nil},
	0.7: {number(23.58), number(1.83), number(9.93), number(8.66)},
}

var themisLH2 = figure{
	name:  "themis-lh:2",
	title: "DCQCN with 500 µs and 1 µs between data centres, WebSearch",
	runs: func(o figureOptions) []sweepRun {
		var runs []sweepRun
		for _, load := range themisLoads {
			for _, distance := range []string{"500us", nearby} {
				s := themisNetwork()
				s.Topo, s.Seed = "dc2:"+distance, o.seed
				arrivals := units.Duration(float64(themisArrivals) * o.scale)
				s.Load = fmt.Sprintf("poisson:WebSearch,%g,%dns", load, arrivals)
				runs = append(runs, sweepRun{themisRun(load, distance), s, load})
			}
		}
		return runs
	},
	points: func(_ figureOptions, r map[string]*report) (points []point) {
		most, least := -1e9, 1e9
		for _, load := range themisLoads {
			far, near := r[themisRun(load, "500us")].Slowdown.ByClass, r[themisRun(load, nearby)].Slowdown.ByClass
			if near["intra"].Flows == 0 || near["inter"].Flows == 0 {
				continue // too small a scale has loads without a message of some kind
			}
			p := themisPublished[load]
			points = append(points,
				point{Name: "500 µs", Class: "intra", X: load, Ours: far["intra"].Avg, Paper: p[0]},
				point{Name: "500 µs", Class: "inter", X: load, Ours: far["inter"].Avg, Paper: p[1]},
				point{Name: "1 µs", Class: "intra", X: load, Ours: near["intra"].Avg, Paper: p[2]},
				point{Name: "1 µs", Class: "inter", X: load, Ours: near["inter"].Avg, Paper: p[3]})
			most = max(most, 100*(far["intra"].Avg/near["intra"].Avg-1))
			least = min(least, 100*(far["inter"].Avg/near["inter"].Avg-1))
		}
		if len(points) == 0 {
			return nil
		}
		// "long-haul transmission increases the FCT of intra-DC flows by up to 118% while reducing
		// the FCT of inter-DC flows by up to 74%": the signs, and for intra the range.
		return append(points,
			point{Name: "most change of intra by distance, %", Class: "change", X: 0, Ours: most, Paper: number(118)}.within(40, 150),
			point{Name: "most change of inter by distance, %", Class: "change", X: 0, Ours: least, Paper: number(-74)}.within(-100, 0))
	},
	chart: func(o figureOptions, points []point) figures.Chart {
		x := figures.ChartAxis{
			Label: "load of hosts' links", Quantity: "load", Linear: true, Ticks: themisLoads,
			Format: func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
		}
		y := figures.ChartAxis{Label: "completion time over that alone", Quantity: "slowdown", Ticks: []float64{1, 2, 5, 10, 20, 50}}
		return figures.Chart{
			Title:    "THEMIS, figure 2: DCQCN between data centres near and far",
			Subtitle: fmt.Sprintf("average slowdown, WebSearch for %s, seed %d", units.FormatDuration(units.Duration(float64(themisArrivals)*o.scale)), o.seed),
			Dotted:   "the paper's averages",
			Panels: []figures.ChartPanel{
				{Title: "(a) within a data centre", X: x, Y: y, Lines: lines(points, "intra")},
				{Title: "(b) between data centres", X: x, Y: y, Lines: lines(points, "inter")},
			},
		}
	},
}
