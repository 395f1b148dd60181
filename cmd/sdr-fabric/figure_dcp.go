// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// The figures and tables of DCP (Li et al., SIGCOMM 2025). The paper gives no threshold of its queues, no timeouts and
// no sizes of incasts: what stands for them here is in docs/results/dcp.md, the same for all figures.

// dcpNetwork is the packets and the memory of the paper's simulations (section 6.2), with headers as its simulator counts
// them: r = 1048/48.
func dcpNetwork(o figureOptions) scenario {
	s := defaultScenario()
	s.Topo, s.MTU, s.Header, s.AckSize, s.Buffer, s.Seed = "leafspine:16x16x16,100G,1us", 1000, 48, 60, "32MiB", o.seed
	return s
}

// A dcpScheme is what the paper compares.
type dcpScheme struct {
	key, name string
	set       func(s *scenario)
}

const (
	// dcpTrim has acknowledgements go with the headers. All transports' go before data in these figures, as in conweave-ns3 (AckHighPrio): by section
	// 4.2 of the paper DCP's alone would wait behind data and be dropped where those are trimmed, and without them a whole message is repeated
	// after a timeout, of which the paper's figures 1 and 2 have none.
	dcpTrim = "48,n=22,acks=safe"
	// dcpAdaptive is the less filled of two ports drawn for each packet (DRILL), as conweave-ns3 has it but for its memory of the last choice. The
	// least of all ports is no choice where senders keep a period: each packet finds free the very port that its sender's last one has just left, so
	// that a host keeps to one spine for as long as its message lasts, and shares it with whoever has come upon the same (docs/results/dcp.md).
	dcpAdaptive = "leastqueue:2"
	// dcpMarks and dcpControl are those of conweave-ns3 at 100 Gbit/s.
	dcpMarks   = "100kB,400kB,0.2"
	dcpControl = "dcqcn:hpcc,rise=300us,ai=40mbit,hai=100mbit,cnp=0"
)

var (
	schemeDCP = dcpScheme{"dcp", "DCP", func(s *scenario) { s.Transport, s.Routing, s.Trim = "dcp", dcpAdaptive, dcpTrim }}
	// schemeDCPWindow bounds what DCP has under way to one product of the paper's network, 104 packets: eight messages of 13.
	schemeDCPWindow = dcpScheme{"dcp-window", "DCP, a window of one product", func(s *scenario) {
		schemeDCP.set(s)
		s.Transport = "dcp:message=13"
	}}
	schemeIRNAR   = dcpScheme{"irn-ar", "IRN, adaptive routing", func(s *scenario) { s.Transport, s.Routing = "irn", dcpAdaptive }}
	schemeIRNECMP = dcpScheme{"irn-ecmp", "IRN, ECMP", func(s *scenario) { s.Transport, s.Routing = "irn", "ecmp" }}
	schemePFC     = dcpScheme{"pfc", "PFC, ECMP", func(s *scenario) { s.Transport, s.Routing, s.Buffer = "gbn", "ecmp", "32MiB,pfc" }}
	schemeMPRDMA  = dcpScheme{"mprdma", "MP-RDMA", func(s *scenario) {
		s.Transport, s.Routing, s.Buffer, s.ECN = "mprdma", "entropy", "32MiB,pfc", dcpMarks
	}}
	schemeRACK    = dcpScheme{"racktlp", "RACK-TLP, ECMP", func(s *scenario) { s.Transport, s.Routing = "racktlp", "ecmp" }}
	schemeTimeout = dcpScheme{"timeout", "timeouts only", func(s *scenario) { s.Transport, s.Routing = "timeout", dcpAdaptive }}
)

// withDCQCN adds the congestion control of section 6.3, with those marks.
func (c dcpScheme) withDCQCN() dcpScheme {
	set := c.set
	return dcpScheme{c.key + "-cc", c.name + ", DCQCN", func(s *scenario) {
		set(s)
		s.CC, s.ECN = dcpControl, dcpMarks
	}}
}

// A dcpRun is a scenario of a figure by its name.
type dcpRun struct {
	name string
	s    scenario
	cost float64
}

// A dcpFigure is a figure, or with no chart a table.
type dcpFigure struct {
	name, title string
	runs        func(o figureOptions) []dcpRun
	points      func(o figureOptions, r map[string]*report) []point
	verdict     func(o figureOptions, points []point) []point // nil: none
	// x, y and class of the drawing.
	x, y  figures.ChartAxis
	class string
	// beside are more panels over x.
	beside []dcpPanel
}

// A dcpPanel draws the points of a class.
type dcpPanel struct {
	title, class string
	y            figures.ChartAxis
}

func (f dcpFigure) figure() figure {
	id := func(o figureOptions, run string) string {
		kind := ""
		if f.class == "" {
			kind = "table"
		}
		return fmt.Sprintf("dcp-%s%s.scale%.4g.seed%d.%s", kind, f.name, o.scale, o.seed, run)
	}
	out := figure{
		name: "dcp:" + f.name, title: f.title, means: true, verdict: f.verdict,
		runs: func(o figureOptions) (all []sweepRun) {
			if f.runs == nil {
				return nil
			}
			for _, r := range f.runs(o) {
				all = append(all, sweepRun{id(o, r.name), r.s, r.cost})
			}
			return all
		},
		points: func(o figureOptions, by map[string]*report) []point {
			r := map[string]*report{}
			if f.runs != nil {
				for _, run := range f.runs(o) {
					r[run.name] = by[id(o, run.name)]
				}
			}
			return f.points(o, r)
		},
	}
	if f.class != "" {
		out.chart = func(o figureOptions, points []point) figures.Chart {
			chart := figures.Chart{
				Title: "DCP, figure " + f.name + ": " + f.title, Subtitle: fmt.Sprintf("scale %.4g, %s%s", o.scale, o.of(), map[bool]string{true: ", bars: 95 % intervals of the means"}[o.seeds > 1]),
				Dotted: "what the paper's text says",
			}
			for _, p := range append([]dcpPanel{{f.title, f.class, f.y}}, f.beside...) {
				chart.Panels = append(chart.Panels, figures.ChartPanel{Title: p.title, X: f.x, Y: p.y, Lines: lines(points, p.class)})
			}
			return chart
		}
	}
	return out
}

var dcpLosses = []float64{1e-4, 1e-3, 5e-3, 1e-2, 2e-2, 5e-2}

var lossAxis = figures.ChartAxis{Label: "loss rate per packet", Quantity: "loss", Ticks: []float64{1e-4, 1e-3, 1e-2, 5e-2}, Format: func(v float64) string { return fmt.Sprintf("%g %%", 100*v) }}

// dcpLongFlow is the size of a long flow, in bytes: 200 MB in full, and an eighth at least, for its losses to count.
func dcpLongFlow(o figureOptions) float64 { return 200e6 * max(o.scale, 1./8) }

// oneFlow is a long flow through one switch that loses packets.
func oneFlow(o figureOptions, c dcpScheme, loss float64) scenario {
	s := dcpNetwork(o)
	c.set(&s)
	s.Topo, s.Load, s.Routing, s.Forced = "star:2,100G,1us", fmt.Sprintf("incast:1,%d", units.Bytes(dcpLongFlow(o))), "ecmp", loss
	return s
}

// goodput is the share of the line that payload and its headers take.
func goodput(r *report) float64 { return r.GoodputGbps * 1.048 / 100 }

// cx5Delay is what ConnectX-5 takes from a NAK to the first repeat, so that go-back-N wastes as many packets per loss as the paper's ratio of 72
// at 5 % implies: 119 µs (1349 packets with the round trip).
const cx5Delay = 109 * units.Microsecond

func lossFigure(name, title string, schemes []dcpScheme, judge func(o figureOptions, loss float64, good map[string]float64) []point) dcpFigure {
	run := func(c dcpScheme, loss float64) string { return fmt.Sprintf("%s.%g", c.key, loss) }
	return dcpFigure{
		name: name, title: title, class: "goodput", x: lossAxis,
		y: figures.ChartAxis{Label: "goodput, share of the line", Quantity: "goodput", Linear: true, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}},
		runs: func(o figureOptions) (runs []dcpRun) {
			for _, loss := range dcpLosses {
				for _, c := range schemes {
					runs = append(runs, dcpRun{run(c, loss), oneFlow(o, c, loss), 1})
				}
			}
			return runs
		},
		points: func(o figureOptions, r map[string]*report) (points []point) {
			for _, loss := range dcpLosses {
				good := map[string]float64{}
				for _, c := range schemes {
					good[c.key] = goodput(r[run(c, loss)])
					p := point{Name: c.name, Class: "goodput", X: loss, Ours: good[c.key]}
					if c.key == schemeDCP.key {
						p = p.within((1-loss)*0.98, (1-loss)*1.02)
					}
					points = append(points, p)
				}
				points = append(points, judge(o, loss, good)...)
			}
			return points
		},
	}
}

var dcp10 = lossFigure("10", "loss recovery of one flow, DCP and go-back-N", []dcpScheme{
	schemeDCP,
	{"gbn", "go-back-N with ConnectX-5's delay", func(s *scenario) {
		s.Transport = fmt.Sprintf("gbn:nakdelay=%dns,nakinterval=4us", cx5Delay)
	}},
}, func(o figureOptions, loss float64, good map[string]float64) []point {
	// What follows a lost packet until its repeat is wasted: W packets.
	wire := 1048 * 8. / 100e9
	waste := (float64(cx5Delay) + 4400 + 2000) * 1e-9 / wire // delay, round trip, and half an interval of NAKs
	formula := 1 / (1 + loss*waste/(1-loss))
	ratio := point{Name: "DCP over go-back-N", Class: "ratio", X: loss, Ours: good["dcp"] / good["gbn"]}
	switch loss {
	case 1e-4:
		ratio.Paper = number(1.6)
	case 5e-2:
		ratio.Paper = number(72)
		ratio = ratio.within(40, 100)
	}
	exact := point{Name: "go-back-N over its formula", Class: "ratio", X: loss, Ours: good["gbn"] / formula}
	if loss*dcpLongFlow(o)/1000 > 150 { // losses enough
		exact = exact.within(0.9, 1.1)
	}
	return []point{ratio, exact}
})

// rackSpans are how many windows from its first gap on RACK-TLP may have sent: the paper doesn't say, and the ratio depends on
// it. With 1 it is bounded by what is not acknowledged in order, as queue pairs of the paper's lineage of simulators are; 3 is ours.
var rackSpans = []int{1, 2, 3, 4, 8}

func rackSpan(n int) dcpScheme {
	return dcpScheme{fmt.Sprintf("racktlp-span%d", n), "RACK-TLP over DCP by windows from a gap on", func(s *scenario) {
		schemeRACK.set(s)
		s.Transport = fmt.Sprintf("racktlp:span=%d", n)
	}}
}

var dcp17 = withRackSpans(lossFigure("17", "loss recovery of one flow", []dcpScheme{schemeDCP, schemeRACK, schemeIRNECMP, schemeTimeout}, func(_ figureOptions, loss float64, good map[string]float64) []point {
	ratio := func(c dcpScheme) point {
		return point{Name: c.name + " over DCP", Class: "ratio", X: loss, Ours: good[c.key] / good[schemeDCP.key]}
	}
	rack, irn, to := ratio(schemeRACK), ratio(schemeIRNECMP), ratio(schemeTimeout)
	if loss >= 1e-3 { // the paper's order
		rack, irn, to = rack.within(0, 1), irn.within(0, rack.Ours), to.within(0, irn.Ours)
	}
	if loss == 5e-2 {
		rack = rack.within(1/1.4, 1/1.1)
		irn, to = irn.within(0, min(0.5, rack.Ours)), to.within(0, min(0.5, irn.Ours))
	}
	return []point{rack, irn, to}
}))

// withRackSpans adds the sweep over rackSpans at the highest loss.
func withRackSpans(f dcpFigure) dcpFigure {
	loss := dcpLosses[len(dcpLosses)-1]
	runs, points := f.runs, f.points
	f.runs = func(o figureOptions) []dcpRun {
		all := runs(o)
		for _, n := range rackSpans {
			c := rackSpan(n)
			all = append(all, dcpRun{c.key, oneFlow(o, c, loss), 1})
		}
		return all
	}
	f.points = func(o figureOptions, r map[string]*report) []point {
		all := points(o, r)
		of := r[fmt.Sprintf("%s.%g", schemeDCP.key, loss)]
		for _, n := range rackSpans {
			c := rackSpan(n)
			all = append(all, point{Name: c.name, Class: "ratio", X: float64(n), Ours: goodput(r[c.key]) / goodput(of)})
		}
		return all
	}
	return f
}

// webSearch is the general workload of section 6.2 for 20 ms in full.
func webSearch(o figureOptions, load float64) string {
	return fmt.Sprintf("poisson:WebSearch,%g,%dns", load, arrivalTime(o))
}

func arrivalTime(o figureOptions) int64 {
	return int64(float64(20*units.Millisecond) * o.scale)
}

// compared makes the runs of schemes on one load.
func compared(o figureOptions, name, load string, schemes ...dcpScheme) (runs []dcpRun) {
	for _, c := range schemes {
		s := dcpNetwork(o)
		s.Load = load
		c.set(&s)
		runs = append(runs, dcpRun{name + c.key, s, 1})
	}
	return runs
}

// noAxis is that of figures which compare schemes at one point.
var noAxis = figures.ChartAxis{
	Label: "one load", Quantity: "point", Linear: true, Ticks: []float64{0, 1}, Format: func(float64) string { return "" },
}

var dcp1 = dcpFigure{
	name: "1", title: "spurious retransmissions, WebSearch at 0.3", class: "messages that repeat, %", x: noAxis,
	y: figures.ChartAxis{Label: "messages that repeat, %", Quantity: "percent", Linear: true, Ticks: []float64{0, 25, 50, 75, 100}},
	runs: func(o figureOptions) []dcpRun {
		return compared(o, "", webSearch(o, 0.3), schemeDCP, schemeIRNAR)
	},
	points: func(_ figureOptions, r map[string]*report) (points []point) {
		for _, c := range []dcpScheme{schemeDCP, schemeIRNAR} {
			rep := r[c.key]
			lost := rep.Packets.Dropped + rep.Packets.Trimmed
			spurious := point{Name: c.name, Class: "packets repeated that were not lost, %", Ours: 100 * (float64(rep.Packets.Retransmitted) - float64(lost)) / float64(rep.Packets.Sent)}
			flows := point{Name: c.name, Class: "messages that repeat, %", Ours: 100 * rep.Packets.Repeating}
			gone := point{Name: c.name, Class: "packets lost or trimmed", Ours: float64(lost)}
			if c.key == schemeDCP.key {
				spurious = spurious.within(0, 0)
				spurious.Paper, flows.Paper = number(0), number(0)
			} else {
				flows = flows.within(35, 95) // 50 % of small, 80 % of medium, 90 % of large ones
				gone = gone.within(0, 0)
			}
			points = append(points, spurious, flows, gone)
		}
		return points
	},
}

// incastSize is of each of the senders of an incast: the paper gives none. severeSize is that of table 5, so that the
// incast doesn't fit the memory of a switch.
const (
	incastSize = "64KiB"
	severeSize = "1MiB"
)

var dcp2 = dcpFigure{
	name: "2", title: "timeouts, WebSearch at 0.3 and incasts of 128 at 0.1", class: "timeouts", x: noAxis,
	y: figures.ChartAxis{Label: "timeouts", Quantity: "timeouts", Linear: true},
	runs: func(o figureOptions) []dcpRun {
		load := fmt.Sprintf("%s;burst:128,%s,0.1,%dns", webSearch(o, 0.3), incastSize, arrivalTime(o))
		return compared(o, "", load, schemeDCP, schemeIRNECMP, schemeIRNAR)
	},
	points: func(_ figureOptions, r map[string]*report) []point {
		p := func(c dcpScheme) point {
			return point{Name: c.name, Class: "timeouts", Ours: float64(r[c.key].Timeouts)}
		}
		none, ecmp, ar := p(schemeDCP).within(0, 0), p(schemeIRNECMP), p(schemeIRNAR)
		none.Paper = number(0)
		return []point{none, ecmp, ar}
	},
}

// dcp13Schemes are those of the paper, IRN with ECMP for comparison, and DCP in messages of 13 packets: with eight under way a window of one
// product, as IRN has. It is this one that is held against the paper: servers there "generate more traffic in cross-DC scenarios due to the
// larger BDP capacity" (section 6.2), whatever their transport, which senders without a window don't.
var dcp13Schemes = []dcpScheme{schemeDCP, schemeDCPWindow, schemeMPRDMA, schemeIRNAR, schemeIRNECMP, schemePFC}

var dcp13 = dcpFigure{
	name: "13", title: "WebSearch, slowdown", class: "P95 slowdown",
	x: figures.ChartAxis{Label: "load of hosts' links", Quantity: "load", Linear: true, Ticks: []float64{0.3, 0.5}},
	y: figures.ChartAxis{Label: "P95 of the slowdown", Quantity: "slowdown", Ticks: []float64{1, 2, 5, 10, 20, 50}},
	runs: func(o figureOptions) (runs []dcpRun) {
		for _, load := range []float64{0.3, 0.5} {
			runs = append(runs, compared(o, fmt.Sprintf("load%g.", load), webSearch(o, load), dcp13Schemes...)...)
		}
		return runs
	},
	points: func(o figureOptions, r map[string]*report) (points []point) {
		paper := map[float64]float64{0.3: -5, 0.5: -10}
		for _, load := range []float64{0.3, 0.5} {
			of := func(c dcpScheme) slowdowns { return r[fmt.Sprintf("load%g.%s", load, c.key)].Slowdown }
			for _, c := range dcp13Schemes {
				points = append(points, point{Name: c.name, Class: "P50 slowdown", X: load, Ours: of(c).P50}, point{Name: c.name, Class: "P95 slowdown", X: load, Ours: of(c).P95})
			}
			less := func(name string, dcp, c dcpScheme) point {
				return point{Name: name + " against " + c.name + ", P95 %", Class: "change", X: load, Ours: 100 * (of(dcp).P95/of(c).P95 - 1)}
			}
			judged := func(c dcpScheme) point { return less("DCP with a window", schemeDCPWindow, c) }
			irn, mp, pfc := judged(schemeIRNAR), judged(schemeMPRDMA), judged(schemePFC)
			irn.Paper, mp.Paper = number(paper[load]), number(map[float64]float64{0.3: -16, 0.5: -12}[load])
			if o.claims() {
				irn, mp, pfc = irn.within(paper[load]-15, 1), mp.within(-100, 0), pfc.within(-100, 0)
			}
			points = append(points, irn, mp, pfc)
			for _, c := range []dcpScheme{schemeIRNAR, schemeMPRDMA, schemePFC} {
				points = append(points, less("DCP", schemeDCP, c))
			}
		}
		return points
	},
}

// meanChange is by how many percent a quantile of a is above that of b, in the mean over the groups by size: as a paper reads it off curves
// over sizes.
func meanChange(a, b slowdowns, quantile func(sizeSlow) float64) float64 {
	sum := 0.0
	for i := range a.BySize {
		sum += 100 * (quantile(a.BySize[i])/quantile(b.BySize[i]) - 1)
	}
	return sum / float64(len(a.BySize))
}

func dcpFigures() (all []figure) {
	for _, f := range []dcpFigure{dcp1, dcp2, dcp10, dcp11, dcp12, dcp13, dcp14, dcp15, dcp16, dcp17} {
		all = append(all, f.figure())
	}
	return all
}
