// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

var strackSizes = []units.Bytes{4 * units.KiB, 128 * units.KiB, 512 * units.KiB, 2 * units.MiB, 16 * units.MiB, 64 * units.MiB, 100 * units.MB}

// strackNetwork is a leaf–spine network of the paper's shape: as many hosts a leaf as spines, twice as
// many leaves, links of 400 Gbit/s and 1 µs; 128 leaves, 64 spines and 8192 hosts in full.
func strackNetwork(o figureOptions) scenario {
	s := defaultScenario()
	side := 1 << int(math.Round(math.Log2(64*math.Sqrt(o.scale)))) // hosts grow with its square
	s.Topo = fmt.Sprintf("leafspine:%dx%dx%d,400G,1us", 2*side, side, side)
	if o.scale < 1 && math.Abs(float64(2*side*side)/(8192*o.scale)-2) < 0.5 {
		s.Topo = fmt.Sprintf("leafspine:%dx%dx%d,400G,1us", side, side, side)
	}
	s.Seed = o.seed
	return s
}

// The bandwidth-delay product is 400 kB: 400 Gbit/s and 8 µs. RoCEv2 marks from there on and pauses
// out of 256 MB for each 51.2 Tbit/s of ports; without PFC queues drop at five products. The paper gives
// no constants of its DCQCN: those of HPCC's evaluation are for links of this kind.
const strackBDP = 400 * units.KB

func strackRoCE(s scenario) scenario {
	s.Transport, s.CC, s.Routing = "gbn:ack=4", "dcqcn:hpcc", "ecmp"
	s.ECN, s.Buffer = "400kB,400kB,1", "256MB,pfc"
	return s
}

func strackIRN(s scenario) scenario {
	s.Transport, s.CC, s.Routing = "irn:ack=4", "none", "leastqueue"
	s.ECN, s.Buffer = "none", fmt.Sprintf("256MB,queue=%d", 5*strackBDP)
	return s
}

const (
	nameRoCE = "RoCEv2, ECMP"
	nameIRN  = "irn, least queue"
)

var strack9 = figure{
	name:  "strack:9",
	title: "longest completion of a permutation at 400 Gbit/s",
	runs: func(o figureOptions) []sweepRun {
		var runs []sweepRun
		for _, size := range strackSizes {
			s := strackNetwork(o)
			s.Load = fmt.Sprintf("perm:%d", size)
			cost := float64(size + 100*units.KB)
			runs = append(runs, sweepRun{strackRun(o, "roce", size), strackRoCE(s), cost}, sweepRun{strackRun(o, "irn", size), strackIRN(s), cost})
		}
		return runs
	},
	points: func(o figureOptions, r map[string]*report) (points []point) {
		ratio := 0.0
		for _, size := range strackSizes {
			roce, irn := r[strackRun(o, "roce", size)].FCT.Max/1000, r[strackRun(o, "irn", size)].FCT.Max/1000
			points = append(points,
				point{Name: nameRoCE, Class: "µs", X: float64(size), Ours: roce},
				point{Name: nameIRN, Class: "µs", X: float64(size), Ours: irn})
			ratio = roce / irn
			points = append(points, point{Name: "RoCEv2 over irn", Class: "ratio", X: float64(size), Ours: ratio})
		}
		// The paper's "up to 6.3X" is over STrack; irn that is sprayed to the least queue has the
		// same idle paths to use.
		last := &points[len(points)-1]
		last.Paper = number(6.3)
		if o.full() {
			*last = last.within(5.5, 7.5)
		}
		return points
	},
	chart: func(o figureOptions, points []point) figures.Chart {
		x := figures.ChartAxis{Label: "message size", Quantity: "bytes", Format: func(v float64) string { return units.Bytes(v).String() }}
		for _, s := range strackSizes {
			if s != 64*units.MiB { // its label would run into that of 100 MB
				x.Ticks = append(x.Ticks, float64(s))
			}
		}
		return figures.Chart{
			Title:    "STrack, figure 9: longest completion of a permutation",
			Subtitle: fmt.Sprintf("%s, seed %d; dotted: the paper's 6.3, which is over STrack", strackNetwork(o).Topo, o.seed),
			Panels: []figures.ChartPanel{
				{
					Title: "(a) longest completion time", X: x, Lines: lines(points, "µs"),
					Y: figures.ChartAxis{Label: "µs", Quantity: "fct_us", Ticks: []float64{10, 100, 1000, 10_000}},
				},
				{
					Title: "(b) RoCEv2 over irn", X: x, Lines: lines(points, "ratio"),
					Y: figures.ChartAxis{Label: "ratio", Quantity: "ratio", Linear: true, Ticks: []float64{0, 2, 4, 6, 8}},
				},
			},
		}
	},
}

func strackRun(o figureOptions, scheme string, size units.Bytes) string {
	return fmt.Sprintf("strack-9.scale%.4g.%s.%d", o.scale, scheme, size)
}
