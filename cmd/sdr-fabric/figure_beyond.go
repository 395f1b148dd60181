// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// Beyond STrack's paper: parity for messages of a window, where links corrupt packets. Without it a probe or the timeout finds such
// losses. Longer messages get none, so that failed links cost them what they did.

const (
	corruption = 1e-3 // of each link, per packet
	pathLinks  = 4
)

var codedSizes = []units.Bytes{16 * units.KiB, 32 * units.KiB, 64 * units.KiB, 128 * units.KiB}

var schemeCoded = strackScheme{"coded", "STrack with parity", func(s *scenario, bdp units.Bytes) {
	setSTrack(s, bdp, fmt.Sprintf(",corruption=%g", pathLinks*corruption))
}}

func beyondFigure() figure {
	schemes := []strackScheme{schemeSTrack, schemeCoded}
	short := func(o figureOptions, c strackScheme, size units.Bytes) scenario {
		n := strackNetwork{rate: 400 * units.Gbit}
		s := defaultScenario()
		s.Topo, s.Load, s.Loss, s.Seed = n.topo(o), fmt.Sprintf("perm:%d", size), corruption, o.seed
		c.set(&s, n.bdp())
		return s
	}
	long := func(o figureOptions, c strackScheme) scenario {
		n := strackNetwork{rate: 400 * units.Gbit, failLeaves: 16, failOf64: 4}
		s := defaultScenario()
		s.Topo, s.Load, s.Seed = n.topo(o), fmt.Sprintf("perm:%d", 16*units.MiB), o.seed
		c.set(&s, n.bdp())
		return s
	}
	run := func(o figureOptions, c strackScheme, what string) string {
		return fmt.Sprintf("strack-beyond.scale%.4g.seed%d.%s.%s", o.scale, o.seed, c.key, what)
	}
	const failed = "failed"
	withFailed := func(o figureOptions) bool { return o.largest == 0 || o.largest >= 16*units.MiB }
	return figure{
		name: "strack:beyond", title: "parity against corruption",
		runs: func(o figureOptions) (runs []sweepRun) {
			for _, c := range schemes {
				for _, size := range codedSizes {
					runs = append(runs, sweepRun{run(o, c, fmt.Sprint(int64(size))), short(o, c, size), float64(size)})
				}
				if withFailed(o) {
					runs = append(runs, sweepRun{run(o, c, failed), long(o, c), float64(16 * units.MiB)})
				}
			}
			return runs
		},
		points: func(o figureOptions, r map[string]*report) (points []point) {
			for _, size := range codedSizes {
				x, what := float64(size), fmt.Sprint(int64(size))
				own, ours := r[run(o, schemeSTrack, what)].FCT.P99, r[run(o, schemeCoded, what)].FCT.P99
				points = append(points, point{Name: schemeSTrack.name, Class: "p99, µs", X: x, Ours: own / 1000}, point{Name: schemeCoded.name, Class: "p99, µs", X: x, Ours: ours / 1000},
					point{Name: "p99 over STrack's own", Class: "ratio", X: x, Ours: ours / own}.within(0, 0.8))
			}
			if withFailed(o) {
				own, ours := r[run(o, schemeSTrack, failed)].FCT, r[run(o, schemeCoded, failed)].FCT
				for _, p := range []struct {
					name      string
					own, ours float64
				}{{"p50", own.P50, ours.P50}, {"p95", own.P95, ours.P95}, {"p99", own.P99, ours.P99}, {"p99.9", own.P999, ours.P999}, {"max", own.Max, ours.Max}} {
					points = append(points, point{Name: "16 MiB, failed links, " + p.name + " over STrack's own", Class: "long", Ours: p.ours / p.own}.within(0, 1.02))
				}
			}
			return points
		},
		chart: func(o figureOptions, points []point) figures.Chart {
			x := figures.ChartAxis{Label: "message size", Quantity: "bytes", Format: func(v float64) string { return units.Bytes(v).String() }}
			for _, s := range codedSizes {
				x.Ticks = append(x.Ticks, float64(s))
			}
			return figures.Chart{
				Title: "STrack with parity for short messages", Subtitle: fmt.Sprintf("%s, each link corrupts one packet in a thousand, %s", strackNetwork{rate: 400 * units.Gbit}.topo(o), o.ofBars()),
				Panels: []figures.ChartPanel{
					{Title: "(a) completion time, p99", X: x, Lines: lines(points, "p99, µs"), Y: figures.ChartAxis{Label: "µs", Quantity: "fct_us", Ticks: []float64{10, 20, 50, 100, 200}}},
					{Title: "(b) ratio", X: x, Lines: lines(points, "ratio"), Y: figures.ChartAxis{Label: "ratio", Quantity: "ratio", Linear: true, Ticks: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}},
				},
			}
		},
	}
}
