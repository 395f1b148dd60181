// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/units"
)

// The tables of DCP's paper: 1, 3 and 5.

// dcpTable1 is equation 1 with a hop's delay of 5 µs a km, for the paper's buffer per port of 100 Gbit/s. Its values follow with megabytes
// of 1024·1000 bytes.
var dcpTable1 = dcpFigure{
	name: "1", title: "longest distance with PFC, km",
	points: func(figureOptions, map[string]*report) (points []point) {
		for _, c := range []struct {
			name        string
			mb, km, km8 float64
		}{
			{"Tomahawk 3", 0.5, 4.1, 0.512}, {"Tomahawk 5", 0.32, 2.62, 0.327}, {"Tofino 1", 0.62, 5.08, 0.634},
			{"Tofino 2", 0.5, 4.1, 0.512}, {"Spectrum", 0.5, 4.1, 0.512}, {"Spectrum-4", 160. / 512, 2.56, 0.320},
		} {
			km := c.mb * 1024 * 1000 * 8 / (100e9 * 5e-6 * 2)
			of := func(queues, paper float64) point {
				return point{Name: c.name, Class: fmt.Sprintf("%g queues", queues), X: queues, Ours: km / queues, Paper: number(paper)}.within(0.97*paper, 1.03*paper)
			}
			points = append(points, of(1, c.km), of(8, c.km8))
		}
		return points
	},
}

// dcpTable3 is what receivers keep per queue pair at 400 Gbit/s and 10 µs: the paper's row of bitmaps is five of a
// product each, as IRN has.
var dcpTable3 = dcpFigure{
	name: "3", title: "bytes of state per queue pair to track packets",
	points: func(figureOptions, map[string]*report) []point {
		const bits = 400e9 * 10e-6 / 8 / 1000
		bitmaps := 5 * bits / 8.
		return []point{
			point{Name: "five bitmaps of one product", Class: "bytes", Ours: bitmaps, Paper: number(320)}.within(0.97*320, 1.03*320),
			point{Name: "DCP, 8 messages", Class: "bytes", Ours: dcp.StateBytes, Paper: number(32)}.within(0, 64),
		}
	},
}

// A headersRow is a row of table 5: an incast through switches whose weight is for radix n. What the paper leaves open, the
// bound of the control queue and how much longer packets are than headers, is swept.
type headersRow struct {
	n, senders    int
	cc            bool
	mtu, header   units.Bytes
	control       units.Bytes // 0: the switch's memory
	paper         *float64
	atLeast, most float64 // in percent
	any           bool    // no bounds
}

// swept reports whether it is none of the paper's cells.
func (h headersRow) swept() bool { return h.control > 0 || h.any }

// ratio is r.
func (h headersRow) ratio() float64 { return float64(h.mtu+48) / float64(h.header) }

func (h headersRow) run() string {
	cc := ""
	if h.cc {
		cc = "-cc"
	}
	return fmt.Sprintf("n%d.%d%s.r%.3g.control%d", h.n, h.senders, cc, h.ratio(), h.control)
}

func (h headersRow) name() string {
	name := fmt.Sprintf("N = %d, r = %.3g, %d to 1", h.n, h.ratio(), h.senders)
	if h.control > 0 {
		name += fmt.Sprintf(", %v of headers", h.control)
	}
	if h.cc {
		name += ", DCQCN"
	}
	return name
}

// headersRows are the paper's eight cells with headers that may fill the switch's memory, in which none can be lost: the packets of an
// incast of 255, a header each, are less than that. Then bounds of the control queue, for the cell in which the paper loses some and
// for the one beside it; and r as other headers and packets have it: 13.4 on the wire of Ethernet, 19.4 of the paper's own 57 bytes, 49.9
// with packets of 4 KiB.
func headersRows() (rows []headersRow) {
	for _, n := range []int{22, 16} {
		for _, senders := range []int{128, 255} {
			for _, cc := range []bool{false, true} {
				rows = append(rows, headersRow{n: n, senders: senders, cc: cc, mtu: 1000, header: 48, paper: number(0)})
			}
		}
	}
	rows[6].paper = number(0.16)
	for _, control := range []units.Bytes{4 * units.MiB, 6 * units.MiB, 8 * units.MiB} {
		for _, n := range []int{22, 16} {
			h := headersRow{n: n, senders: 255, mtu: 1000, header: 48, control: control, any: true}
			if control == 6*units.MiB { // the paper's cells follow with it
				h.any = false
				if n == 16 {
					h.atLeast, h.most = 0.02, 1
				}
			}
			rows = append(rows, h)
		}
	}
	for _, h := range []headersRow{{n: 14, mtu: 1000, header: 78}, {n: 20, mtu: 1000, header: 54}, {n: 16, mtu: 4096, header: 83}, {n: 48, mtu: 4096, header: 83}} {
		h.senders, h.any = 255, true
		rows = append(rows, h)
	}
	return rows
}

// headersTime ends the runs of the sweep: senders of lost headers wait for timeouts that double up to seconds, and where control packets have
// nearly all of the line the incast takes as long. Its packets have been trimmed many times by then.
const headersTime = 100 * units.Millisecond

var dcpTable5 = dcpFigure{
	name: "5", title: "header-only packets lost in incasts, %",
	runs: func(o figureOptions) (runs []dcpRun) {
		for _, h := range headersRows() {
			s := dcpNetwork(o)
			c := schemeDCP
			if h.cc {
				c = c.withDCQCN()
			}
			c.set(&s)
			s.MTU = h.mtu
			s.Trim = fmt.Sprintf("%d,n=%d,acks=safe", h.header, h.n)
			if h.control > 0 {
				s.Trim += fmt.Sprintf(",control=%d", h.control)
			}
			if h.swept() {
				s.Until = headersTime
			}
			s.Load = fmt.Sprintf("%s;incast:%d,%s", webSearch(o, 0.3), h.senders, severeSize)
			runs = append(runs, dcpRun{h.run(), s, 1})
		}
		return runs
	},
	points: func(_ figureOptions, r map[string]*report) (points []point) {
		for _, h := range headersRows() {
			rep := r[h.run()]
			lost := point{Name: h.name(), Class: "headers lost, %", X: float64(h.senders), Ours: 100 * float64(rep.Packets.HeadersLost) / float64(max(rep.Packets.Trimmed, 1)), Paper: h.paper}
			if !h.any {
				lost = lost.within(h.atLeast, h.most)
			}
			points = append(points, lost, point{Name: h.name(), Class: "headers", X: float64(h.senders), Ours: float64(rep.Packets.Trimmed)})
		}
		return points
	},
}

var allTables = []figure{dcpTable1.figure(), dcpTable3.figure(), dcpTable5.figure()}
