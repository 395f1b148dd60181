// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// The figures of STrack's paper over time: queues, rates, and what acknowledgements tell.

// A timeFigure looks at runs while they go on.
type timeFigure struct {
	number  int
	title   string
	runs    func(o figureOptions) map[string]scenario // by scheme
	points  func(o figureOptions, r map[string]*report) []point
	y       figures.ChartAxis
	classes []string // of what is drawn over time, a panel each
}

func (f timeFigure) id(o figureOptions, key string) string {
	return fmt.Sprintf("strack-%d.scale%.4g.seed%d.%s", f.number, o.scale, o.seed, key)
}

// timeAxis has about five ticks, of one, two or five times a power of ten, up to the last point of a class.
func timeAxis(points []point, class string) figures.ChartAxis {
	last := 1.0
	for _, p := range points {
		if p.Class == class {
			last = max(last, p.X)
		}
	}
	step := 1.0
	for i := 0; last/step > 5; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	a := figures.ChartAxis{Label: "µs", Quantity: "time_us", Linear: true}
	for t := 0.0; t <= last; t += step {
		a.Ticks = append(a.Ticks, t)
	}
	return a
}

func (f timeFigure) figure() figure {
	return figure{
		name: fmt.Sprintf("strack:%d", f.number), title: f.title,
		runs: func(o figureOptions) (runs []sweepRun) {
			for _, c := range []strackScheme{schemeRoCE, schemeSTrack} {
				if s, ok := f.runs(o)[c.key]; ok {
					runs = append(runs, sweepRun{f.id(o, c.key), s, 1})
				}
			}
			return runs
		},
		points: func(o figureOptions, by map[string]*report) []point {
			r := map[string]*report{}
			for key := range f.runs(o) {
				r[key] = by[f.id(o, key)]
			}
			return f.points(o, r)
		},
		chart: func(o figureOptions, points []point) figures.Chart {
			c := figures.Chart{Title: fmt.Sprintf("STrack, figure %d: %s", f.number, f.title), Subtitle: fmt.Sprintf("scale %.4g, seed %d", o.scale, o.seed)}
			for _, class := range f.classes {
				c.Panels = append(c.Panels, figures.ChartPanel{Title: class, X: timeAxis(points, class), Y: f.y, Lines: lines(points, class)})
			}
			return c
		},
	}
}

// sampled is a scenario on the paper's network that is looked at each step.
func sampled(o figureOptions, c strackScheme, load string, step, until units.Duration) scenario {
	n := strackNetwork{rate: 400 * units.Gbit}
	s := defaultScenario()
	s.Topo, s.Load, s.Seed, s.Sample, s.Until = n.topo(o), load, o.seed, step, until
	c.set(&s, n.bdp())
	return s
}

// series are the points of a line over time, which begins with the first step.
func series(name, class string, step float64, v []float64) (points []point) {
	for i, y := range v {
		points = append(points, point{Name: name, Class: class, X: step * float64(i+1), Ours: y, series: true})
	}
	return points
}

// scaled is v times f.
func scaled(v []float64, f float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * f
	}
	return out
}

func most(v []float64) (m float64) {
	for _, x := range v {
		m = max(m, x)
	}
	return m
}

// jainAfter is the mean over steps of Jain's index of the flows' rates, from a time on until the first flow ends.
func jainAfter(s *samples, fromNS float64) float64 {
	end := len(s.FlowGbps[0])
	for _, f := range s.FlowGbps {
		last := len(f) - 1
		for last > 0 && f[last] == 0 {
			last--
		}
		end = min(end, last)
	}
	sum, n := 0.0, 0
	for i := int(fromNS / s.StepNS); i < end; i++ {
		a, b := 0.0, 0.0
		for _, f := range s.FlowGbps {
			a, b = a+f[i], b+f[i]*f[i]
		}
		if b > 0 {
			sum, n = sum+a*a/b/float64(len(s.FlowGbps)), n+1
		}
	}
	return sum / float64(max(n, 1))
}

// never is a time after all that is looked at, in µs.
const never = 1e6

const incast32 = "incast:32,16777216"

func timeFigures() (all []figure) {
	queues := figures.ChartAxis{Label: "µs", Quantity: "delay_us", Linear: true, Ticks: []float64{0, 8, 50, 100, 200, 300}}
	rates := figures.ChartAxis{Label: "Gbit/s", Quantity: "gbps", Linear: true, Ticks: []float64{0, 12.5, 25, 50, 100, 200, 400}}
	const us = 1e-3
	fig := []timeFigure{
		{
			number: 3, title: "last hop of an all-to-all with RoCEv2, 32 hosts", y: queues, classes: []string{"delay of the longest queue"},
			runs: func(o figureOptions) map[string]scenario {
				s := defaultScenario()
				s.Topo, s.Load, s.Seed, s.Sample = "leafspine:4x8x8,400G,1us", fmt.Sprintf("a2a:%d,active=32", o.collectiveBytes(smallSize)), o.seed, 10*units.Microsecond
				return map[string]scenario{schemeRoCE.key: schemeRoCE.on(s)}
			},
			points: func(_ figureOptions, r map[string]*report) []point {
				s := r[schemeRoCE.key].Samples
				points := series("RoCEv2", "delay of the longest queue", s.StepNS*us, scaled(s.LastHopNS, us))
				return append(points,
					point{Name: "longest delay of a last hop", Class: "peak, µs", Ours: most(s.LastHopNS) * us, Paper: number(46)}.within(23, 92),
					point{Name: "highest rate to a last hop", Class: "peak, Gbit/s", Ours: most(s.ArrivalGbps), Paper: number(489.256)}.atLeast(400))
			},
		},
		{
			number: 4, title: "signals of congestion in an incast of 32", y: figures.ChartAxis{Label: "µs", Quantity: "rtt_us", Linear: true, Ticks: []float64{0, 8, 16, 32, 64}}, classes: []string{"round trip"},
			runs: func(o figureOptions) map[string]scenario {
				// An acknowledgement for each packet: the first of four would tell of the fourth.
				each := strackScheme{schemeSTrack.key, schemeSTrack.name, func(s *scenario, bdp units.Bytes) { setSTrack(s, bdp, ",ack=1") }}
				return map[string]scenario{each.key: sampled(o, each, incast32, 10*units.Microsecond, 200*units.Microsecond)}
			},
			points: func(_ figureOptions, r map[string]*report) (points []point) {
				ecn, rises := never, never
				signals := r[schemeSTrack.key].Samples.Signals
				for _, g := range signals {
					points = append(points, point{Name: "first flow", Class: "round trip", X: g.AtNS * us, Ours: g.RTTNS * us, series: true})
					if g.ECN {
						ecn = min(ecn, g.AtNS*us)
					}
					if g.RTTNS > 1.5*signals[0].RTTNS {
						rises = min(rises, g.AtNS*us)
					}
				}
				return append(points,
					point{Name: "first mark heard", Class: "at, µs", Ours: ecn}.within(0, rises),
					point{Name: "round trip has risen by half", Class: "at, µs", Ours: rises, Paper: number(16)}.within(12, 20))
			},
		},
		{
			number: 8, title: "longest queue, permutation of 16 MiB", y: queues, classes: []string{"delay of the longest queue"},
			runs: func(o figureOptions) map[string]scenario {
				load := fmt.Sprintf("perm:%d", 16*units.MiB)
				return map[string]scenario{
					schemeSTrack.key: sampled(o, schemeSTrack, load, 10*units.Microsecond, 0),
					schemeRoCE.key:   sampled(o, schemeRoCE, load, 10*units.Microsecond, 0),
				}
			},
			points: func(_ figureOptions, r map[string]*report) (points []point) {
				last := 0.0
				s := r[schemeSTrack.key].Samples
				for i, q := range s.QueueNS {
					if q > float64(strackBase) {
						last = s.StepNS * us * float64(i+1)
					}
				}
				for _, c := range []strackScheme{schemeRoCE, schemeSTrack} {
					s := r[c.key].Samples
					points = append(points, series(c.name, "delay of the longest queue", s.StepNS*us, scaled(s.QueueNS, us))...)
				}
				return append(points,
					point{Name: "STrack: last queue above 8 µs", Class: "at, µs", Ours: last, Paper: number(370)}.within(0, 450),
					point{Name: "RoCEv2: longest queue", Class: "peak, µs", Ours: most(r[schemeRoCE.key].Samples.QueueNS) * us, Paper: number(250)}.within(150, 350))
			},
		},
		fairnessFigure(17, schemeSTrack, rates, 0.95),
		fairnessFigure(18, schemeRoCE, rates, 0),
	}
	for _, f := range fig {
		all = append(all, f.figure())
	}
	return all
}

// fairnessFigure is the rates of eight of 32 flows to one host, in steps of 100 µs.
func fairnessFigure(n int, c strackScheme, y figures.ChartAxis, least float64) timeFigure {
	return timeFigure{
		number: n, title: "incast of 32: eight flows, " + c.name, y: y, classes: []string{"rate, Gbit/s"},
		runs: func(o figureOptions) map[string]scenario {
			return map[string]scenario{c.key: sampled(o, c, incast32, 100*units.Microsecond, 0)}
		},
		points: func(_ figureOptions, r map[string]*report) (points []point) {
			s := r[c.key].Samples
			for i, f := range s.FlowGbps {
				points = append(points, series(fmt.Sprintf("flow %d", i+1), "rate, Gbit/s", s.StepNS/1000, f)...)
			}
			p := point{Name: "Jain's index from 500 µs on", Class: "fairness", Ours: jainAfter(s, 500e3)}
			if least > 0 {
				p = p.within(least, 1)
			}
			return append(points, p)
		},
	}
}
