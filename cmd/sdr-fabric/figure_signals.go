// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// The figures of STrack's paper over time: queues, rates, and what acknowledgements tell.

// A timeFigure looks at runs while they go on.
type timeFigure struct {
	number  int
	title   string
	drawn   string                                    // what the drawing shows, if that is less than the title says
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
	a := figures.ChartAxis{Label: "time, µs", Quantity: "time_us", Linear: true}
	for t := 0.0; t <= last; t += step {
		a.Ticks = append(a.Ticks, t)
	}
	return a
}

func (f timeFigure) figure() figure {
	return figure{
		name: fmt.Sprintf("strack:%d", f.number), title: f.title,
		runs: func(o figureOptions) (runs []sweepRun) {
			by := f.runs(o)
			for _, key := range slices.Sorted(maps.Keys(by)) {
				runs = append(runs, sweepRun{f.id(o, key), by[key], 1})
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
			c := figures.Chart{Title: fmt.Sprintf("STrack, figure %d: %s", f.number, cmp.Or(f.drawn, f.title)), Subtitle: fmt.Sprintf("scale %.4g, seed %d", o.scale, o.seed)}
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
	sum, n, rates := 0.0, 0, make([]float64, len(s.FlowGbps))
	for i := int(fromNS / s.StepNS); i < end; i++ {
		for k, f := range s.FlowGbps {
			rates[k] = f[i]
		}
		if jain := bottleneck.Jain(rates); jain > 0 { // else nothing was sent
			sum, n = sum+jain, n+1
		}
	}
	return sum / float64(max(n, 1))
}

// lastAbove is when the last step ends in which something was more than bound, in µs; 0: never.
func lastAbove[T float64 | uint64](stepNS float64, v []T, bound T) (last float64) {
	for i, x := range v {
		if x > bound {
			last = stepNS / 1000 * float64(i+1)
		}
	}
	return last
}

// longest is the most in each n steps.
func longest(v []float64, n int) (out []float64) {
	for c := range slices.Chunk(v, n) {
		out = append(out, slices.Max(c))
	}
	return out
}

// never is a time after all that is looked at, in µs.
const never = 1e6

const incast32 = "incast:32,16777216"

func timeFigures() (all []figure) {
	queues := figures.ChartAxis{Label: "queuing delay, µs", Quantity: "delay_us", Linear: true, Ticks: []float64{0, 8, 50, 100, 200, 300}}
	short := figures.ChartAxis{Label: "queuing delay, µs", Quantity: "delay_us", Linear: true, Ticks: []float64{0, 10, 20, 30, 40, 50}}
	rates := figures.ChartAxis{Label: "Gbit/s", Quantity: "gbps", Linear: true, Ticks: []float64{0, 50, 100, 200, 400}}
	const us = 1e-3
	fig := []timeFigure{
		{
			number: 3, title: "last hop of an all-to-all with RoCEv2, 32 hosts", y: short, classes: []string{"delay of the longest queue"},
			runs: func(o figureOptions) map[string]scenario {
				s := defaultScenario()
				s.Topo, s.Load, s.Seed, s.Sample = smallNetwork, fmt.Sprintf("a2a:%d,active=32", o.collectiveBytes(smallSize)), o.seed, 10*units.Microsecond
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
			number: 4, title: "signals of congestion in an incast of 32", y: figures.ChartAxis{Label: "round trip, µs", Quantity: "rtt_us", Linear: true, Ticks: []float64{0, 8, 16, 32, 64}}, classes: []string{"round trip"},
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
				s := r[schemeSTrack.key].Samples
				last := lastAbove(s.StepNS, s.QueueNS, float64(strackBase))
				for _, c := range []strackScheme{schemeRoCE, schemeSTrack} {
					s := r[c.key].Samples
					points = append(points, series(c.name, "delay of the longest queue", s.StepNS*us, scaled(s.QueueNS, us))...)
				}
				return append(points,
					point{Name: "STrack: last queue above 8 µs", Class: "at, µs", Ours: last, Paper: number(370)}.within(0, 450),
					point{Name: "RoCEv2: longest queue", Class: "peak, µs", Ours: most(r[schemeRoCE.key].Samples.QueueNS) * us, Paper: number(250)}.within(150, 350))
			},
		},
		convergenceFigure(),
		fairnessFigure(17, schemeSTrackPrompt, rates, 0.95),
		fairnessFigure(18, schemeRoCE, rates, 0),
		incastQueueFigure(),
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

// convergenceFigure is the last hop of an incast of 32: its queue, and when packets are dropped and senders paused.
func convergenceFigure() timeFigure {
	const us, drawn = 1e-3, 100 // steps
	class := "delay of the last hop"
	return timeFigure{
		number: 16, title: "incast of 32: queue, drops and pauses", drawn: "queue of an incast of 32", classes: []string{class},
		y: figures.ChartAxis{Label: "queuing delay, µs", Quantity: "delay_us", Linear: true, Ticks: []float64{0, 500, 1000, 1500, 2000}},
		runs: func(o figureOptions) map[string]scenario {
			return map[string]scenario{
				schemeSTrack.key: sampled(o, schemeSTrackPrompt, incast32, units.Microsecond, 0),
				schemeRoCE.key:   sampled(o, schemeRoCE, incast32, units.Microsecond, 0),
			}
		},
		points: func(_ figureOptions, r map[string]*report) (points []point) {
			for _, c := range []strackScheme{schemeRoCE, schemeSTrack} {
				s := r[c.key].Samples
				points = append(points, series(c.name, class, s.StepNS*us*drawn, scaled(longest(s.LastHopNS, drawn), us))...)
			}
			strack, roce := r[schemeSTrack.key].Samples, r[schemeRoCE.key].Samples
			return append(points,
				point{Name: "STrack: last queue above two targets", Class: "at, µs", Ours: lastAbove(strack.StepNS, strack.LastHopNS, 2*float64(strackBase)), Paper: number(95)}.within(0, 120),
				// Two base round trips: the first windows need one to leave, and half of one to arrive.
				point{Name: "STrack: last drop", Class: "at, µs", Ours: lastAbove(strack.StepNS, strack.Drops, 0)}.within(0, 16),
				// The paper prints 7500 µs for 37.5 MB, which are 750 at this rate.
				point{Name: "RoCEv2: longest delay of the last hop", Class: "µs", Ours: most(roce.LastHopNS) * us, Paper: number(750)},
				point{Name: "RoCEv2: last pause", Class: "at, µs", Ours: lastAbove(roce.StepNS, roce.Pauses, 0), Paper: number(7800)})
		},
	}
}

// incastQueueFigure is the last hop's queue with few senders and many.
func incastQueueFigure() timeFigure {
	const us = 1e-3
	class := "delay of the last hop"
	name := func(senders int) string { return fmt.Sprintf("%d senders", senders) }
	of := func(o figureOptions) (senders []int) {
		for _, n := range []int{8, 32, 128} {
			if float64(n) < 8192*o.scale {
				senders = append(senders, n)
			}
		}
		return senders
	}
	return timeFigure{
		number: 20, title: "last hop of incasts with STrack", classes: []string{class},
		y: figures.ChartAxis{Label: "queuing delay, µs", Quantity: "delay_us", Linear: true, Ticks: []float64{0, 8, 16, 24, 40}},
		runs: func(o figureOptions) map[string]scenario {
			by := map[string]scenario{}
			for _, n := range of(o) {
				by[fmt.Sprint(n)] = sampled(o, schemeSTrackPrompt, fmt.Sprintf("incast:%d,%d", n, 16*units.MiB), 10*units.Microsecond, 0)
			}
			return by
		},
		points: func(o figureOptions, r map[string]*report) (points []point) {
			for _, n := range of(o) {
				s := r[fmt.Sprint(n)].Samples
				steps := len(s.LastHopNS)
				shown := min(steps, 100) // of the first millisecond
				points = append(points, series(name(n), class, s.StepNS*us, scaled(s.LastHopNS[:shown], us))...)
				sum, settled := 0.0, s.LastHopNS[min(steps, 15):steps*9/10]
				for _, q := range settled {
					sum += q * us
				}
				p := point{Name: name(n) + ": mean from 150 µs on", Class: "µs", Ours: sum / float64(max(len(settled), 1)), Paper: number(8)}.within(6, 12)
				if n > 32 {
					p = p.within(8, 20) // a window of less than two packets
				}
				points = append(points, p)
			}
			return points
		},
	}
}
