// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/units"
)

// The figures of DCP's paper with more than one path, collectives and long distances: 11, 12, 14 and 15.

// unequalPaths is two senders and two receivers with two paths between them, of which the second has a part of the
// rate (figure 11).
var unequalPaths = []int{1, 4, 10}

var dcp11Schemes = []dcpScheme{
	schemeDCP,
	{"gbn-ar", "go-back-N with ConnectX-5's delay, adaptive routing", func(s *scenario) {
		s.Transport, s.Routing = fmt.Sprintf("gbn:nakdelay=%dns,nakinterval=4us", cx5Delay), "leastqueue"
	}},
}

// unequalCapacity is what both paths carry together, in Gbit/s.
func unequalCapacity(by int) float64 { return 100 + 100/float64(by) }

// whileBoth is the goodput in Gbit/s while both flows send, at least: when one has ended the other sends no more than its port carries, which is
// less than both paths do. Where that comes to less than the goodput of the whole time, both together are slower than one port, or one stood still.
func whileBoth(r *report) float64 {
	alone := (r.FCT.Max - r.FCT.P50) * 100 / 1.048 // of two values P50 is the lower one
	return max(r.GoodputGbps, (float64(r.PayloadBytes)*8-alone)/r.FCT.P50)
}

var dcp11 = dcpFigure{
	name: "11", title: "goodput over two unequal paths", class: "goodput",
	x: figures.ChartAxis{Label: "rate of one path over the other", Quantity: "ratio", Ticks: []float64{1, 4, 10}},
	y: figures.ChartAxis{Label: "goodput, share of both paths", Quantity: "goodput", Linear: true, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}},
	runs: func(o figureOptions) (runs []dcpRun) {
		for _, by := range unequalPaths {
			for _, c := range dcp11Schemes {
				s := dcpNetwork(o)
				c.set(&s)
				s.Topo, s.Routing = "leafspine:2x2x2,100G,1us", "leastqueue:weighted" // "according to the capacity ratio of the links"
				if by > 1 {
					s.Topo += fmt.Sprintf(",slow=1x%d", by)
				}
				s.Load = fmt.Sprintf("halves:%d", units.Bytes(dcpLongFlow(o)))
				runs = append(runs, dcpRun{fmt.Sprintf("%s.1to%d", c.key, by), s, 1})
			}
		}
		return runs
	},
	points: func(_ figureOptions, r map[string]*report) (points []point) {
		for _, by := range unequalPaths {
			for _, c := range dcp11Schemes {
				p := point{Name: c.name, Class: "goodput", X: float64(by), Ours: whileBoth(r[fmt.Sprintf("%s.1to%d", c.key, by)]) * 1.048 / unequalCapacity(by)}
				switch {
				case c.key == schemeDCP.key:
					p = p.within(0.95, 1)
				case by > 1:
					p = p.within(0, 0.6)
				}
				points = append(points, p)
			}
		}
		return points
	},
}

// collectiveTotal is the traffic of an operation in figure 14, of each rank; figure 12, whose text has none, takes the same.
const collectiveTotal = 300e6

// dcpCollectives are those of figures 12 and 14: slices of a rank's data, one for each rank.
func dcpCollectives(o figureOptions, ranks, jobs int) []collective {
	size := units.Bytes(collectiveTotal * o.scale)
	return []collective{
		{"allreduce", "AllReduce", fmt.Sprintf("ring:%d,ranks=%d,jobs=%d,chunk=%d", size, ranks, jobs, size/units.Bytes(ranks)+1)},
		{"alltoall", "AllToAll", fmt.Sprintf("a2a:%d,ranks=%d,jobs=%d", size, ranks, jobs)},
	}
}

// scaledRTO shrinks timeouts of 4 ms as much as messages, so that one means the same against the time of a whole operation.
func scaledRTO(o figureOptions, s *scenario) {
	if name := s.Transport; name == "dcp" || name == "gbn" || name == "mprdma" {
		s.Transport = fmt.Sprintf("%s:rto=%dns", name, int64(max(float64(4*units.Millisecond)*o.scale, float64(250*units.Microsecond))))
	}
}

var collectiveAxis = figures.ChartAxis{
	Label: "collective", Quantity: "collective", Linear: true, Ticks: []float64{1, 2},
	Format: func(v float64) string { return map[float64]string{1: "AllReduce", 2: "AllToAll"}[v] },
}

// jobTimes are when the jobs of a run ended, in milliseconds, by their numbers.
func jobTimes(r *report) (ms []float64) {
	if r.Groups == nil {
		return []float64{r.FCT.Max / 1e6}
	}
	for _, g := range slices.Sorted(maps.Keys(r.Groups)) {
		ms = append(ms, r.Groups[g].LastNS/1e6)
	}
	return ms
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// collectiveRuns is each of schemes with each collective.
func collectiveRuns(o figureOptions, topo string, ranks, jobs int, schemes []dcpScheme) (runs []dcpRun) {
	for _, c := range dcpCollectives(o, ranks, jobs) {
		for _, scheme := range schemes {
			s := dcpNetwork(o)
			scheme.set(&s)
			scaledRTO(o, &s)
			s.Topo, s.Load = topo, c.load
			runs = append(runs, dcpRun{c.key + "." + scheme.key, s, 1})
		}
	}
	return runs
}

// collectivePoints are the mean times of jobs, and by how much they are shorter with DCP than with each rival: in the mean, and at best.
func collectivePoints(o figureOptions, r map[string]*report, ranks, jobs int, schemes []dcpScheme, judge func(collective, rival string, average, most point) []point) (points []point) {
	for i, c := range dcpCollectives(o, ranks, jobs) {
		x := float64(i + 1)
		ours := jobTimes(r[c.key+"."+schemeDCP.key])
		for _, scheme := range schemes {
			theirs := jobTimes(r[c.key+"."+scheme.key])
			points = append(points, point{Name: scheme.name, Class: "mean completion, ms", X: x, Ours: mean(theirs)})
			if scheme.key == schemeDCP.key {
				continue
			}
			most := 0.0
			for j := range ours {
				most = math.Min(most, 100*(ours[j]/theirs[j]-1))
			}
			average := point{Name: "DCP against " + scheme.name, Class: c.name + ", change, %", X: x, Ours: 100 * (mean(ours)/mean(theirs) - 1)}
			best := point{Name: "DCP against " + scheme.name, Class: c.name + ", largest change of a group, %", X: x, Ours: most}
			points = append(points, judge(c.key, scheme.key, average, best)...)
		}
	}
	return points
}

var dcp12 = dcpFigure{
	name: "12", title: "four groups of four over eight links, completion", class: "mean completion, ms", x: collectiveAxis,
	y: figures.ChartAxis{Label: "mean completion, ms", Quantity: "ms", Ticks: []float64{0.1, 1, 10, 100}},
	runs: func(o figureOptions) []dcpRun {
		return collectiveRuns(o, "leafspine:2x8x8,100G,1us", 4, 4, []dcpScheme{schemeDCP, schemePFC})
	},
	points: func(o figureOptions, r map[string]*report) []point {
		return collectivePoints(o, r, 4, 4, []dcpScheme{schemeDCP, schemePFC}, func(c, _ string, average, most point) []point {
			paper := map[string]float64{"allreduce": -33, "alltoall": -42}[c]
			most.Paper = number(paper) // "up to"
			if o.claims() {
				most = most.within(map[string]float64{"allreduce": -50, "alltoall": -60}[c], map[string]float64{"allreduce": -15, "alltoall": -20}[c])
			}
			return []point{average, most}
		})
	},
}

var dcp14Schemes = []dcpScheme{schemeDCP, schemeMPRDMA, schemeIRNAR, schemePFC}

var dcp14 = dcpFigure{
	name: "14", title: "sixteen groups of sixteen, completion", class: "mean completion, ms", x: collectiveAxis,
	y: figures.ChartAxis{Label: "mean completion, ms", Quantity: "ms", Ticks: []float64{0.1, 1, 10, 100}},
	runs: func(o figureOptions) []dcpRun {
		return collectiveRuns(o, "leafspine:16x16x16,100G,1us", 16, 16, dcp14Schemes)
	},
	points: func(o figureOptions, r map[string]*report) []point {
		points := collectivePoints(o, r, 16, 16, dcp14Schemes, func(c, rival string, average, _ point) []point {
			paper := map[string]map[string]float64{
				"allreduce": {"mprdma": -38, "irn-ar": -44, "pfc": -61}, "alltoall": {"mprdma": -5, "irn-ar": -45, "pfc": -46},
			}[c][rival]
			average.Paper = number(paper)
			if o.claims() {
				average = average.within(min(paper-15, 1.5*paper), max(min(paper+15, 0), 0.5*paper))
			}
			return []point{average}
		})
		// 30 steps of a sixteenth, at the line's rate with headers: 45 ms of payload in full.
		line := 30. / 16 * collectiveTotal * o.scale * 8 * 1.048 / 100e9 * 1e3
		anchor := point{Name: "DCP, AllReduce, over the line's time", Class: "ratio", X: 1, Ours: mean(jobTimes(r["allreduce."+schemeDCP.key])) / line, Paper: number(1)}
		if o.claims() {
			anchor = anchor.within(1, 1.10)
		}
		return append(points, anchor)
	},
}

// A distance is one of figure 15: the delay of a link between leaf and spine, the memory of switches that pause, and as much of it as a leaf's
// headrooms and reserves take, of three times rate and delay each: 16 x 18.75 or 187.5 MB of the long links, 0.6 MB of the hosts', and 0.4 MB.
type distance struct {
	km        float64
	delay     units.Duration
	buffer    string
	headrooms string
}

var distances = []distance{{100, 500 * units.Microsecond, "600MB", "301.2MB"}, {1000, 5 * units.Millisecond, "6GB", "3001.2MB"}}

// far puts a scheme on a network with long links: timeouts allow for the round trip, and switches that pause have the memory for it.
func (d distance) far(s *scenario) {
	s.Topo = fmt.Sprintf("leafspine:16x16x16,100G,1us,updelay=%dns", d.delay)
	rtt := 2 * (2*units.Microsecond + 2*d.delay)
	long := max(4*units.Millisecond, 8*rtt)
	switch s.Transport {
	case "irn":
		s.Transport = fmt.Sprintf("irn:rto=%dns,rtolow=%dns", rtt+320*units.Microsecond, rtt+100*units.Microsecond)
	case "gbn", "mprdma":
		s.Transport += fmt.Sprintf(":rto=%dns", long)
		s.Buffer = d.buffer + ",pfc"
	}
}

// A farScheme is one of figure 15, or another reading of it where the paper leaves one open.
type farScheme struct {
	dcpScheme
	of      string // the scheme that it is a reading of
	first   int    // first window of MP-RDMA, in packets; 0: one product
	nothing bool   // headrooms of three times rate and delay, and next to no memory beside them
}

// dcp15Schemes are those of figure 14, and readings. The paper's 600 MB and 6 GB are 32 times three times rate and delay of a long link, the headroom in the
// simulators that its baselines come from (HPCC's, NS3-MP-RDMA): if all 32 ports had it nothing was left to share, and ports paused at once.
// NS3-MP-RDMA begins with a window of one packet.
var dcp15Schemes = func() (all []farScheme) {
	for _, c := range dcp14Schemes {
		all = append(all, farScheme{dcpScheme: c, of: c.key})
	}
	reading := func(c dcpScheme, key, name string) farScheme {
		return farScheme{dcpScheme: dcpScheme{c.key + "-" + key, c.name + ", " + name, c.set}, of: c.key}
	}
	one, pfc := reading(schemeMPRDMA, "first1", "first window of one packet"), reading(schemePFC, "headrooms", "memory of headrooms")
	one.first, pfc.nothing = 1, true
	return append(all, one, pfc)
}()

// on puts a scheme on the network of a distance.
func (c farScheme) on(d distance, s *scenario) {
	c.set(s)
	d.far(s)
	if c.first > 0 {
		s.Transport += fmt.Sprintf(",initial=%d", c.first)
	}
	if c.nothing {
		s.Buffer = d.headrooms + ",pfc,headroom=ns3"
	}
}

var dcp15 = dcpFigure{
	name: "15", title: "WebSearch at 0.5 between data centres, slowdown", class: "P95 slowdown",
	x: figures.ChartAxis{Label: "distance, km", Quantity: "km", Ticks: []float64{100, 1000}},
	y: figures.ChartAxis{Label: "P95 of the slowdown", Quantity: "slowdown", Ticks: []float64{1, 2, 5, 10, 20, 50, 100}},
	runs: func(o figureOptions) (runs []dcpRun) {
		for _, d := range distances {
			for _, c := range dcp15Schemes {
				s := dcpNetwork(o)
				s.Load = webSearch(o, 0.5)
				c.on(d, &s)
				runs = append(runs, dcpRun{fmt.Sprintf("%gkm.%s", d.km, c.key), s, 1})
			}
		}
		return runs
	},
	points: func(o figureOptions, r map[string]*report) (points []point) {
		paper := map[float64]map[string]float64{100: {"pfc": -89, "mprdma": -81, "irn-ar": -46}, 1000: {"pfc": -84, "mprdma": -95, "irn-ar": -51}}
		for _, d := range distances {
			of := func(c dcpScheme) slowdowns { return r[fmt.Sprintf("%gkm.%s", d.km, c.key)].Slowdown }
			for _, c := range dcp15Schemes {
				points = append(points, point{Name: c.name, Class: "P50 slowdown", X: d.km, Ours: of(c.dcpScheme).P50}, point{Name: c.name, Class: "P95 slowdown", X: d.km, Ours: of(c.dcpScheme).P95})
				if c.key == schemeDCP.key {
					continue
				}
				v := paper[d.km][c.of]
				p := point{Name: "DCP against " + c.name + ", P95 %", Class: "change", X: d.km, Ours: 100 * (of(schemeDCP).P95/of(c.dcpScheme).P95 - 1), Paper: number(v)}
				if o.full() && c.of == c.key {
					p = p.within(-100, v/2)
				}
				points = append(points, p, point{
					Name: "DCP against " + c.name, Class: "mean change of P95 over twentieths by size, %", X: d.km, Paper: number(v),
					Ours: meanChange(of(schemeDCP), of(c.dcpScheme), func(s sizeSlow) float64 { return s.P95 }),
				})
			}
		}
		return points
	},
}
