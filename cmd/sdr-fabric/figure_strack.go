// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// The figures of STrack's section 4 that are about the longest completion time, by message size. Its
// figures carry no numbers: paper values are those of its text, and bounds what the text says, with the
// spread of seeds.

var strackSizes = []units.Bytes{4 * units.KiB, 128 * units.KiB, 512 * units.KiB, 2 * units.MiB, 16 * units.MiB, 64 * units.MiB, 100 * units.MB}

const (
	strackLargest = 100 * units.MB
	strackBase    = 8 * units.Microsecond // net_base_rtt: four links of 1 µs there and back
)

// strackNetwork is a leaf–spine network of the paper's shape: as many hosts a leaf as spines, twice as
// many leaves, links of 1 µs; 128 leaves, 64 spines and 8192 hosts in full.
type strackNetwork struct {
	rate       units.Rate
	oversub    int
	failLeaves int
	failOf64   int // links of each of those leaves, of 64
}

// side is how many spines there are without oversubscription, and hosts on a leaf; hosts grow with its square.
func (o figureOptions) side() int { return 1 << int(math.Round(math.Log2(64*math.Sqrt(o.scale)))) }

func (n strackNetwork) topo(o figureOptions) string {
	side := o.side()
	leaves := 2 * side
	if o.scale < 1 && math.Abs(float64(leaves*side)/(8192*o.scale)-2) < 0.5 {
		leaves = side
	}
	t := fmt.Sprintf("leafspine:%dx%dx%d,%dG,1us", leaves, side, side, n.rate/units.Gbit)
	if n.oversub > 1 {
		t += fmt.Sprintf(",oversub=%d", n.oversub)
	}
	if n.failLeaves > 0 {
		// The same share of leaves, and of their links, has failures at each scale.
		t += fmt.Sprintf(",fail=%dx%d", max(1, n.failLeaves*leaves/128), max(1, n.failOf64*side/64))
	}
	return t
}

func (n strackNetwork) bdp() units.Bytes { return n.rate.Bytes(strackBase) }

// ideal is how long a message takes at a share of the host's link, in µs: its packets, and the round
// trip.
func (n strackNetwork) ideal(size units.Bytes, share float64) float64 {
	packets := (size + 4095) / 4096
	return float64(size+64*packets)*8e6/float64(n.rate)*share + 1e-3*float64(strackBase)
}

// A strackScheme is what the paper compares.
type strackScheme struct {
	key, name string
	set       func(s *scenario, bdp units.Bytes)
}

var (
	schemeSTrack = strackScheme{"strack", "STrack", func(s *scenario, bdp units.Bytes) { setSTrack(s, bdp, "") }}

	// Incasts have an acknowledgement for each mark as well: packets come in order there, nothing closes a gap, and one for four packets
	// tells senders with windows of six too little.
	schemeSTrackPrompt = strackScheme{schemeSTrack.key, schemeSTrack.name, func(s *scenario, bdp units.Bytes) { setSTrack(s, bdp, ",prompt=marked") }}

	schemeOblivious = strackScheme{"oblivious", "STrack, oblivious", func(s *scenario, bdp units.Bytes) { setSTrack(s, bdp, ",oblivious") }}

	// RoCEv2 marks from the product on and pauses out of 256 MB for each 51.2 Tbit/s of ports. The
	// paper gives no constants of its DCQCN, but it extends htsim, whose DCQCN has those of the algorithm's own paper,
	// increases of a twentieth and a tenth of the link's rate, and a cut as soon as a notification comes. It has no least rate,
	// but a sender that waits hears of a higher one; here the rate at the packet before decides how long it waits. So the least is
	// that of HPCC's evaluation.
	schemeRoCE = strackScheme{"roce", "RoCEv2, ECMP", func(s *scenario, bdp units.Bytes) {
		rate := units.Rate(int64(bdp) * 8 * int64(units.Second/strackBase))
		s.Transport, s.Routing = "gbn:ack=4", "ecmp"
		s.CC = fmt.Sprintf("dcqcn:sigcomm15,ai=%dgbit,hai=%dgbit,decrease=4us,min=100mbit", rate/20/units.Gbit, rate/10/units.Gbit)
		s.ECN, s.Buffer = fmt.Sprintf("%d,%d,1", bdp, bdp), "256MB,pfc"
	}}

	// irn is in none of the paper's figures: what a window of one product does with the idlest path. The
	// published IRN takes a packet that others overtake for lost, which spraying makes of most.
	schemeIRN = strackScheme{"irn", "irn, least queue", func(s *scenario, bdp units.Bytes) {
		s.Transport, s.CC, s.Routing = "irn:ack=4,reorder=64", "none", "leastqueue"
		s.ECN, s.Buffer = "none", fmt.Sprintf("256MB,queue=%d", 5*bdp)
	}}
)

// on is a scenario on the paper's links of 400 Gbit/s with the scheme.
func (c strackScheme) on(s scenario) scenario {
	c.set(&s, strackNetwork{rate: 400 * units.Gbit}.bdp())
	return s
}

// setSTrack marks between a quarter and three quarters of the product and drops at five.
func setSTrack(s *scenario, bdp units.Bytes, more string) {
	s.Transport, s.CC, s.Routing = fmt.Sprintf("strack:base=%dus%s", strackBase/units.Microsecond, more), "none", "entropy"
	s.ECN, s.Buffer = fmt.Sprintf("%d,%d,1", bdp/4, bdp*3/4), fmt.Sprintf("256MB,queue=%d", 5*bdp)
	s.AckSize = 84
}

// A strackFigure is the longest completion over message sizes.
type strackFigure struct {
	number  int
	title   string
	net     strackNetwork
	load    string // with the size behind it
	schemes []strackScheme
	// clean adds STrack on the same network without its failures.
	clean bool
	// judge adds what is claimed about one size; longest is by key, in µs.
	judge func(o figureOptions, size units.Bytes, longest map[string]float64) []point
}

const strackClean = "clean"

func (f strackFigure) name() string { return fmt.Sprintf("strack:%d", f.number) }

func (f strackFigure) scenario(o figureOptions, n strackNetwork, c strackScheme, size units.Bytes) scenario {
	s := defaultScenario()
	s.Topo, s.Load, s.Seed = n.topo(o), fmt.Sprintf("%s%d", f.load, size), o.seed
	c.set(&s, n.bdp())
	return s
}

func (f strackFigure) run(o figureOptions, key string, size units.Bytes) string {
	return fmt.Sprintf("strack-%d.scale%.4g.seed%d.%s.%d", f.number, o.scale, o.seed, key, size)
}

func (f strackFigure) runs(o figureOptions) (runs []sweepRun) {
	for _, size := range o.taken(strackSizes) {
		cost := float64(size + 100*units.KB)
		for _, c := range f.schemes {
			runs = append(runs, sweepRun{f.run(o, c.key, size), f.scenario(o, f.net, c, size), cost})
		}
		if f.clean {
			n := f.net
			n.failLeaves = 0
			runs = append(runs, sweepRun{f.run(o, strackClean, size), f.scenario(o, n, schemeSTrack, size), cost})
		}
	}
	return runs
}

func (f strackFigure) points(o figureOptions, r map[string]*report) (points []point) {
	for _, size := range o.taken(strackSizes) {
		longest := map[string]float64{}
		for _, c := range f.schemes {
			longest[c.key] = r[f.run(o, c.key, size)].FCT.Max / 1000
			points = append(points, point{Name: c.name, Class: "µs", X: float64(size), Ours: longest[c.key]})
		}
		if f.clean {
			longest[strackClean] = r[f.run(o, strackClean, size)].FCT.Max / 1000
		}
		points = append(points, f.judge(o, size, longest)...)
	}
	return points
}

func (f strackFigure) chart(o figureOptions, points []point) figures.Chart {
	x := figures.ChartAxis{Label: "message size", Quantity: "bytes", Format: sizeLabel}
	for _, s := range o.taken(strackSizes) {
		x.Ticks = append(x.Ticks, float64(s))
	}
	return figures.Chart{
		Title:    fmt.Sprintf("STrack, figure %d: %s", f.number, f.title),
		Subtitle: fmt.Sprintf("%s, %s", f.net.topo(o), o.ofBars()),
		Dotted:   "what the paper's text says",
		Panels: []figures.ChartPanel{
			{
				Title: "(a) longest completion time", X: x, Lines: lines(points, "µs"),
				Y: figures.ChartAxis{Label: "µs", Quantity: "fct_us", Ticks: []float64{10, 100, 1000, 10_000}},
			},
			{
				Title: "(b) ratios", X: x, Lines: lines(points, "ratio"),
				Y: figures.ChartAxis{Label: "ratio", Quantity: "ratio", Linear: true, Ticks: []float64{0, 2, 4, 6, 8}},
			},
		},
	}
}

// sizeLabel prints a size in the unit that the paper has: 100 MB rather than 95.37 MiB.
func sizeLabel(v float64) string {
	size := units.Bytes(v)
	if size%units.KiB != 0 && size%units.MB == 0 {
		return fmt.Sprintf("%d MB", size/units.MB)
	}
	return size.String()
}

func (f strackFigure) figure() figure {
	return figure{name: f.name(), title: f.title, runs: f.runs, points: f.points, chart: f.chart}
}

func ratioOf(name string, size units.Bytes, a, b float64) point {
	return point{Name: name, Class: "ratio", X: float64(size), Ours: a / b}
}

const (
	roceRatio      = "RoCEv2 over STrack"
	irnRatio       = "RoCEv2 over irn, least queue"
	obliviousRatio = "oblivious over adaptive"
)

// spread is the judgement of figures 9 to 11: RoCEv2 takes up to most times as long, at least low times, oblivious
// spraying a third longer at the largest size, and hardly longer up to 2 MiB.
func spread(most, low float64) func(figureOptions, units.Bytes, map[string]float64) []point {
	return func(o figureOptions, size units.Bytes, longest map[string]float64) []point {
		roce := ratioOf(roceRatio, size, longest["roce"], longest["strack"])
		oblivious := ratioOf(obliviousRatio, size, longest["oblivious"], longest["strack"])
		switch {
		case size == strackLargest:
			roce.Paper, oblivious.Paper = number(most), number(1.33)
			oblivious = oblivious.within(1.2, 2)
			if o.full() { // the most flows that meet on a link grow with the number of links
				roce = roce.within(low, 7.5)
			}
		case size <= 2*units.MiB:
			oblivious = oblivious.within(0.85, 1.05)
		}
		points := []point{roce, oblivious}
		if longest["irn"] > 0 {
			irn := ratioOf(irnRatio, size, longest["roce"], longest["irn"])
			if size == strackLargest && o.full() {
				irn = irn.within(low, 7.5)
			}
			points = append(points, irn)
		}
		return points
	}
}

// oversubscribed is that of figures 12 and 13: the links up are the bottleneck of all, so that STrack's
// longest message takes factor times as long as alone, whichever paths it takes.
func oversubscribed(f *strackFigure) func(figureOptions, units.Bytes, map[string]float64) []point {
	return func(_ figureOptions, size units.Bytes, longest map[string]float64) []point {
		roce := ratioOf(roceRatio, size, longest["roce"], longest["strack"])
		oblivious := ratioOf(obliviousRatio, size, longest["oblivious"], longest["strack"])
		ideal := ratioOf("STrack over the ideal", size, longest["strack"], f.net.ideal(size, float64(f.net.oversub)))
		if size > 16*units.MiB { // shorter ones end before the windows have settled
			roce.Paper = number(3)
			roce, oblivious, ideal = roce.within(2, 3.5), oblivious.within(0.9, 1.1), ideal.within(0.9, 1.1)
		}
		return []point{roce, oblivious, ideal}
	}
}

// failed is that of figures 14 and 15.
func failed(oblivious func(point) point) func(figureOptions, units.Bytes, map[string]float64) []point {
	return func(_ figureOptions, size units.Bytes, longest map[string]float64) []point {
		roce := ratioOf(roceRatio, size, longest["roce"], longest["strack"])
		obl := ratioOf(obliviousRatio, size, longest["oblivious"], longest["strack"])
		loss := ratioOf("STrack over no failure", size, longest["strack"], longest[strackClean])
		if size == strackLargest {
			roce.Paper = number(6)
			obl, loss = oblivious(obl), loss.within(0.95, 1.25)
		}
		return []point{roce, obl, loss}
	}
}

// incast is that of figure 19: the receiver's link is the bottleneck of all senders.
func incast(f *strackFigure, senders float64) func(figureOptions, units.Bytes, map[string]float64) []point {
	return func(_ figureOptions, size units.Bytes, longest map[string]float64) []point {
		roce := ratioOf(roceRatio, size, longest["roce"], longest["strack"])
		ideal := ratioOf("STrack over the ideal", size, longest["strack"], f.net.ideal(size, senders))
		if size >= 16*units.MiB { // shorter ones end before the losses of the first round trip are made up for
			roce.Paper = number(1)
			ideal = ideal.within(0.99, 1.02)
		}
		return []point{roce, ideal}
	}
}

func strackFigures() (all []figure) {
	compared := []strackScheme{schemeRoCE, schemeSTrack, schemeOblivious}
	at := func(rate units.Rate) strackNetwork { return strackNetwork{rate: rate} }
	fig := []*strackFigure{
		{number: 9, title: "permutation at 400 Gbit/s", net: at(400 * units.Gbit), schemes: append([]strackScheme{schemeIRN}, compared...), judge: spread(6.3, 5.5)},
		{number: 10, title: "permutation at 200 Gbit/s", net: at(200 * units.Gbit), schemes: compared, judge: spread(6, 5)},
		{number: 11, title: "permutation at 800 Gbit/s", net: at(800 * units.Gbit), schemes: compared, judge: spread(6, 5)},
		{number: 12, title: "permutation, 4:1 oversubscribed", net: strackNetwork{rate: 400 * units.Gbit, oversub: 4}, schemes: compared},
		{number: 13, title: "permutation, 8:1 oversubscribed", net: strackNetwork{rate: 400 * units.Gbit, oversub: 8}, schemes: compared},
		{
			number: 14, title: "permutation with 64 failed links", schemes: compared, clean: true,
			net:   strackNetwork{rate: 400 * units.Gbit, failLeaves: 16, failOf64: 4},
			judge: failed(func(p point) point { p.Paper = number(1.6); return p.within(1.25, 2) }),
		},
		{
			number: 15, title: "permutation with 256 failed links", schemes: compared, clean: true,
			net:   strackNetwork{rate: 400 * units.Gbit, failLeaves: 16, failOf64: 16},
			judge: failed(func(p point) point { return p }),
		},
		{number: 19, title: "incast of 32 senders", net: at(400 * units.Gbit), load: "incast:32,", schemes: []strackScheme{schemeRoCE, schemeSTrackPrompt}},
	}
	for _, f := range fig {
		switch {
		case f.load != "":
			f.judge = incast(f, 32)
		case f.net.oversub > 1:
			f.judge = oversubscribed(f)
		}
		if f.load == "" {
			f.load = "perm:"
		}
		all = append(all, f.figure())
	}
	return all
}
