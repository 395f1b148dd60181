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

// The figures of STrack's paper about collectives: 64 at once, of 32 ranks each, on hosts drawn from 2048 (section 4.3), and
// one of 32 hosts (section 2). The paper names no size of the former; with 100 MB its 8.5 ms of an all-to-all come out.

const (
	collectiveSize  = 100 * units.MB
	collectiveRanks = 32
	smallSize       = 128 * units.MB // of figure 1
	// smallNetwork is section 2's "2-tier standard fat-tree topology with 32 NICs": of switches with eight ports, as that of 8192 hosts is of 128.
	smallNetwork = "leafspine:8x4x4,400G,1us"
)

// A collective is what jobs do, as a load.
type collective struct {
	key, name, load string
}

var (
	allreduces = []collective{{"ring", "RING", "ring:%d"}, {"hd", "HD", "hd:%d"}, {"dbt", "DBT", "dbt:%d"}}
	allToAlls  = []collective{{"a2a16", "A2A/16", "a2a:%d,active=16"}, {"a2a32", "A2A/32", "a2a:%d,active=32"}, {"a2a64", "A2A/64", "a2a:%d,active=64"}}

	schemeRoCE4 = strackScheme{"roce4", "RoCEv2, 4 QPs", func(s *scenario, bdp units.Bytes) {
		schemeRoCE.set(s, bdp)
		s.Load += ",qps=4"
	}}
	smallSchemes = []strackScheme{{schemeRoCE.key, "RoCEv2, 1 QP", schemeRoCE.set}, schemeRoCE4}

	// Of jobs connections live on over messages, with RoCEv2's rate, STrack's window, and what either knows of paths: QPS_PER_CONN, one queue pair
	// or four "between source and destination" (section 2). RoCEv2's senders hear of a higher rate while they wait, so that they need no least one.
	collectiveSchemes = []strackScheme{
		{schemeRoCE.key, "RoCEv2, 1 QP", func(s *scenario, bdp units.Bytes) { setKeptRoCE(s, bdp, 1) }},
		{schemeRoCE4.key, schemeRoCE4.name, func(s *scenario, bdp units.Bytes) { setKeptRoCE(s, bdp, 4) }},
		schemeKept,
	}
	schemeKept = strackScheme{schemeSTrack.key, schemeSTrack.name, func(s *scenario, bdp units.Bytes) {
		schemeSTrack.set(s, bdp)
		s.Load += ",conns=kept"
	}}
)

func setKeptRoCE(s *scenario, bdp units.Bytes, qps int) {
	schemeRoCE.set(s, bdp)
	s.Transport += ",repace"
	s.CC, _, _ = strings.Cut(s.CC, ",min=")
	s.Load += fmt.Sprintf(",qps=%d,conns=kept", qps)
}

// rankSize prints S in the unit of the paper.
func (o figureOptions) rankSize(most units.Bytes) string {
	return fmt.Sprintf("%.4g MB", float64(o.collectiveBytes(most))/1e6)
}

// collectiveBytes is S of a job.
func (o figureOptions) collectiveBytes(most units.Bytes) units.Bytes {
	if o.largest > 0 {
		return min(o.largest, most)
	}
	return most
}

// collectiveScenario is jobs of 32 ranks on all hosts.
func collectiveScenario(o figureOptions, oversub int, c collective, scheme strackScheme) scenario {
	s := defaultScenario()
	side := o.side()
	hosts := int(math.Round(2048 * o.scale))
	s.Topo = fmt.Sprintf("leafspine:%dx%dx%d,400G,1us", max(1, hosts/side), side, side)
	if oversub > 1 {
		s.Topo += fmt.Sprintf(",oversub=%d", oversub)
	}
	s.Load = fmt.Sprintf(c.load, o.collectiveBytes(collectiveSize)) + fmt.Sprintf(",ranks=%d,jobs=%d", collectiveRanks, max(1, hosts/side)*side/collectiveRanks)
	s.Seed = o.seed
	scheme.set(&s, strackNetwork{rate: 400 * units.Gbit}.bdp())
	return s
}

func collectiveRun(o figureOptions, oversub int, c collective, s strackScheme) string {
	return fmt.Sprintf("strack-jobs.scale%.4g.seed%d.%dto1.%s.%s.%d", o.scale, o.seed, oversub, c.key, s.key, o.collectiveBytes(collectiveSize))
}

// A collectiveFigure is the longest of all jobs, by what they do.
type collectiveFigure struct {
	number  int
	title   string
	oversub int
	what    []collective
	// The most that RoCEv2 takes over STrack, with one queue pair and with four: the paper's, and bounds; a high one of 0 is none.
	one, four [3]float64
	more      func(o figureOptions, r map[string]*report) []point
}

// ends are when jobs ended, in µs, the last at the end.
func ends(r *report) (all []float64) {
	for _, g := range r.Groups {
		all = append(all, g.LastNS/1000)
	}
	if len(all) == 0 { // a single job is no group
		all = []float64{r.SimulatedNS / 1000}
	}
	slices.Sort(all)
	return all
}

// finish is when the last job ended.
func finish(r *report) float64 {
	all := ends(r)
	return all[len(all)-1]
}

func (f collectiveFigure) runs(o figureOptions) (runs []sweepRun) {
	add := func(oversub int, c collective, s strackScheme) {
		runs = append(runs, sweepRun{collectiveRun(o, oversub, c, s), collectiveScenario(o, oversub, c, s), 1})
	}
	for _, c := range f.what {
		for _, s := range collectiveSchemes {
			add(f.oversub, c, s)
		}
		if f.number == 23 { // which compares with figure 21
			add(1, c, schemeKept)
		}
	}
	return runs
}

func (f collectiveFigure) points(o figureOptions, r map[string]*report) (points []point) {
	most := map[string]float64{}
	for i, c := range f.what {
		took := map[string]float64{}
		for _, s := range collectiveSchemes {
			took[s.key] = finish(r[collectiveRun(o, f.oversub, c, s)])
			points = append(points, point{Name: s.name, Class: "µs", X: float64(i + 1), Ours: took[s.key]})
		}
		for _, key := range []string{"roce", "roce4"} {
			most[key] = max(most[key], took[key]/took["strack"])
		}
		points = append(points, point{Name: ratioOne, Class: "ratio", X: float64(i + 1), Ours: took["roce"] / took["strack"]},
			point{Name: ratioFour, Class: "ratio", X: float64(i + 1), Ours: took["roce4"] / took["strack"]})
	}
	bound := func(name string, v float64, b [3]float64) {
		p := point{Name: name + ", most", Class: "most", Ours: v, Paper: number(b[0])}.atLeast(b[1])
		if b[2] > 0 {
			p = p.within(b[1], b[2])
		}
		points = append(points, p)
	}
	bound(ratioOne, most["roce"], f.one)
	bound(ratioFour, most["roce4"], f.four)
	if f.more != nil {
		points = append(points, f.more(o, r)...)
	}
	return points
}

const (
	ratioOne  = "RoCEv2, 1 QP, over STrack"
	ratioFour = "RoCEv2, 4 QPs, over STrack"
)

func categories(what []collective) figures.ChartAxis {
	a := figures.ChartAxis{Label: "collective", Quantity: "collective", Linear: true, Format: func(v float64) string {
		if i := int(v) - 1; i >= 0 && i < len(what) {
			return what[i].name
		}
		return ""
	}}
	for i := range what {
		a.Ticks = append(a.Ticks, float64(i+1))
	}
	return a
}

func (f collectiveFigure) chart(o figureOptions, points []point) figures.Chart {
	return figures.Chart{
		Title:    fmt.Sprintf("STrack, figure %d: %s", f.number, f.title),
		Subtitle: fmt.Sprintf("%s, %s a rank, %s", collectiveScenario(o, f.oversub, f.what[0], schemeSTrack).Topo, o.rankSize(collectiveSize), o.ofBars()),
		Panels: []figures.ChartPanel{
			{Title: "(a) the last job ends", X: categories(f.what), Lines: lines(points, "µs"), Y: figures.ChartAxis{Label: "µs", Quantity: "finish_us", Ticks: []float64{100, 1000, 10_000, 100_000}}},
			{Title: "(b) ratios", X: categories(f.what), Lines: lines(points, "ratio"), Y: figures.ChartAxis{Label: "ratio", Quantity: "ratio", Linear: true, Ticks: []float64{0, 1, 2, 4, 6, 8, 10}}},
		},
	}
}

// A spreadFigure is the distribution of when jobs end.
type spreadFigure struct {
	number  int
	title   string
	oversub int
	what    collective
	judge   func(o figureOptions, spread map[string]float64, ended map[string][]float64) []point
}

func (f spreadFigure) runs(o figureOptions) (runs []sweepRun) {
	for _, s := range collectiveSchemes {
		runs = append(runs, sweepRun{collectiveRun(o, f.oversub, f.what, s), collectiveScenario(o, f.oversub, f.what, s), 1})
	}
	return runs
}

func (f spreadFigure) points(o figureOptions, r map[string]*report) (points []point) {
	spread, ended := map[string]float64{}, map[string][]float64{}
	for _, s := range collectiveSchemes {
		all := ends(r[collectiveRun(o, f.oversub, f.what, s)])
		for i, v := range all {
			points = append(points, point{Name: s.name, Class: "cdf", X: v, Ours: float64(i+1) / float64(len(all)), series: true})
		}
		spread[s.key], ended[s.key] = all[len(all)-1]/all[0]-1, all
	}
	return append(points, f.judge(o, spread, ended)...)
}

func (f spreadFigure) chart(o figureOptions, points []point) figures.Chart {
	return figures.Chart{
		Title:    fmt.Sprintf("STrack, figure %d: %s", f.number, f.title),
		Subtitle: fmt.Sprintf("%s, %s a rank, seed %d", collectiveScenario(o, f.oversub, f.what, schemeSTrack).Topo, o.rankSize(collectiveSize), o.seed),
		Panels: []figures.ChartPanel{{
			Title: "jobs that have ended", Lines: lines(points, "cdf"),
			X: figures.ChartAxis{Label: "end of the job, µs", Quantity: "finish_us", Ticks: []float64{100, 1000, 10_000, 100_000}},
			Y: figures.ChartAxis{Label: "share of the jobs", Quantity: "share", Linear: true, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}},
		}},
	}
}

// fairer claims that STrack's jobs end closer together than those of RoCEv2 with four queue pairs.
func fairer(paper, most float64) func(figureOptions, map[string]float64, map[string][]float64) []point {
	return func(_ figureOptions, spread map[string]float64, _ map[string][]float64) []point {
		roce := point{Name: "RoCEv2, 4 QPs: last over first - 1", Class: "spread", Ours: spread["roce4"]}
		if paper > 0 {
			roce.Paper = number(paper)
		}
		return []point{
			{Name: "RoCEv2, 1 QP: last over first - 1", Class: "spread", Ours: spread["roce"]},
			roce,
			point{Name: "STrack: last over first - 1", Class: "spread", Ours: spread["strack"]}.within(0, min(most, spread["roce4"])),
		}
	}
}

// smallFigure is figure 1: one job of 32 hosts.
func smallFigure() figure {
	what := []collective{{"dbt", "DBT", "dbt:%d"}, {"a2a8", "A2A/8", "a2a:%d,active=8"}, {"a2a16", "A2A/16", "a2a:%d,active=16"}, {"a2a32", "A2A/32", "a2a:%d,active=32"}}
	schemes := smallSchemes
	run := func(o figureOptions, c collective, s strackScheme) string {
		return fmt.Sprintf("strack-1.seed%d.%s.%s.%d", o.seed, c.key, s.key, o.collectiveBytes(smallSize))
	}
	at := func(o figureOptions, c collective, scheme strackScheme) scenario {
		s := defaultScenario()
		s.Topo, s.Load, s.Seed = smallNetwork, fmt.Sprintf(c.load, o.collectiveBytes(smallSize)), o.seed
		scheme.set(&s, strackNetwork{rate: 400 * units.Gbit}.bdp())
		return s
	}
	return figure{
		name: "strack:1", title: "one collective of 32 hosts",
		runs: func(o figureOptions) (runs []sweepRun) {
			for _, c := range what {
				for _, s := range schemes {
					runs = append(runs, sweepRun{run(o, c, s), at(o, c, s), 1})
				}
			}
			return runs
		},
		points: func(o figureOptions, r map[string]*report) (points []point) {
			for i, c := range what {
				took := map[string]float64{}
				for _, s := range schemes {
					took[s.key] = r[run(o, c, s)].SimulatedNS / 1000
					points = append(points, point{Name: s.name, Class: "µs", X: float64(i + 1), Ours: took[s.key]})
				}
				points = append(points, point{Name: "1 QP over 4", Class: "ratio", X: float64(i + 1), Ours: took["roce"] / took["roce4"]}.atLeast(1))
			}
			return points
		},
		chart: func(o figureOptions, points []point) figures.Chart {
			return figures.Chart{
				Title: "STrack, figure 1: one collective of 32 hosts", Subtitle: fmt.Sprintf("%s, %s a rank, %s", smallNetwork, o.rankSize(smallSize), o.ofBars()),
				Panels: []figures.ChartPanel{{Title: "the last rank ends", X: categories(what), Lines: lines(points, "µs"), Y: figures.ChartAxis{Label: "µs", Quantity: "finish_us", Ticks: []float64{1000, 10_000, 100_000}}}},
			}
		},
	}
}

func collectiveFigures() (all []figure) {
	all = append(all, smallFigure())
	jobs := []collectiveFigure{
		{number: 21, title: "allreduces at once", oversub: 1, what: allreduces, one: [3]float64{3, 1.5, 4}, four: [3]float64{1.274, 1.1, 1.4}},
		{number: 22, title: "all-to-alls at once", oversub: 1, what: allToAlls, one: [3]float64{1.792, 1.4, 2.1}, four: [3]float64{1.189, 1.05, 1.3}},
		{
			number: 23, title: "allreduces at once, 4:1 oversubscribed", oversub: 4, what: allreduces, one: [3]float64{4.86, 3, 6}, four: [3]float64{4.13, 2.5, 5.5},
			more: func(o figureOptions, r map[string]*report) (points []point) {
				for i, c := range allreduces {
					v := finish(r[collectiveRun(o, 4, c, schemeSTrack)]) / finish(r[collectiveRun(o, 1, c, schemeSTrack)])
					points = append(points, point{Name: "STrack over figure 21", Class: "ratio", X: float64(i + 1), Ours: v}.within(0.9, 1.3))
				}
				return points
			},
		},
		{number: 24, title: "all-to-alls at once, 4:1 oversubscribed", oversub: 4, what: allToAlls, one: [3]float64{1.515, 1, 0}, four: [3]float64{1.178, 1, 0}},
	}
	for _, f := range jobs {
		all = append(all, figure{name: fmt.Sprintf("strack:%d", f.number), title: f.title, runs: f.runs, points: f.points, chart: f.chart})
	}
	spreads := []spreadFigure{
		{25, "when double binary trees end", 1, allreduces[2], fairer(0.266, 0.08)},
		{26, "when all-to-alls end", 1, allToAlls[1], fairer(0, 1e6)},
		{27, "when double binary trees end, 4:1 oversubscribed", 4, allreduces[2], fairer(0, 1e6)},
		{28, "when all-to-alls end, 4:1 oversubscribed", 4, allToAlls[1], func(o figureOptions, _ map[string]float64, ended map[string][]float64) []point {
			all := ended["strack"]
			first, median := point{Name: "STrack, first job", Class: "µs", Ours: all[0]}, point{Name: "STrack, median job", Class: "µs", Ours: percentile(all, 0.5)}
			if o.full() && o.collectiveBytes(collectiveSize) == collectiveSize {
				first.Paper, median.Paper = number(7780), number(8500)
				median = median.within(8500*0.88, 8500*1.12)
			}
			return []point{first, median}
		}},
	}
	for _, f := range spreads {
		all = append(all, figure{name: fmt.Sprintf("strack:%d", f.number), title: f.title, runs: f.runs, points: f.points, chart: f.chart})
	}
	return all
}
