// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"math"
	"runtime"

	"github.com/klauspost/cpuid/v2"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure11: "Comparison of MDS EC versus XOR EC": what encoding costs on this machine, and what each
// code withstands.
func figure11(r *run) *Figure {
	f := &Figure{
		Title:    "Figure 11: MDS against XOR, k = 32, m = 8",
		Subtitle: fmt.Sprintf("left: 128 MiB buffer, 64 KiB units, on %s, %d CPUs; right: 128 MiB message, p is per unit of 64 KiB", cpuid.CPU.BrandName, runtime.NumCPU()),
		legend:   []key{{name: "EC XOR (32,8)", look: xorLook}, {name: "EC MDS (32,8)", look: mdsLook}, {name: "400 Gbit/s", look: limitLook}},
		height:   3.4,
	}
	f.panels = [][]*panel{{r.encoding(), r.resilience()}}
	return f
}

// encoding measures both codes with 1, 2, 4, … cores.
func (r *run) encoding() *panel {
	rs, err := reedSolomon()
	if err != nil {
		r.err = err
		return &panel{}
	}
	bench, cores := newCodingBench(), coreCounts(runtime.NumCPU())
	p := &panel{title: "(a) encoding, data per second"}
	for _, c := range []struct {
		name string
		look look
		enc  encoder
	}{{"EC XOR (32,8)", xorLook, xorParity}, {"EC MDS (32,8)", mdsLook, rs}} {
		l := line{name: c.name, look: c.look}
		for _, n := range cores {
			rate, err := bench.rate(c.enc, n, r.passes)
			if err != nil {
				r.err = err
				return p
			}
			r.step("figure 11: %s with %d cores: %.0f Gbit/s", c.name, n, rate/1e9)
			l.points = append(l.points, point{x: float64(n), y: rate / 1e9})
		}
		p.lines = append(p.lines, l)
	}
	last := float64(cores[len(cores)-1])
	left, right := 1/1.3, last*1.3
	p.lines = append(p.lines, line{name: "400 Gbit/s", look: limitLook, points: []point{{x: left, y: 400}, {x: right, y: 400}}})
	p.x = axis{label: "cores", quantity: "cores", min: left, max: right}
	for _, n := range cores {
		p.x.ticks = append(p.x.ticks, valueTicks("%g", float64(n))...)
	}
	p.y = axis{label: "Gbit/s of data encoded", quantity: "gbps", ticks: valueTicks("%g", 10, 25, 50, 100, 200, 400, 800, 1600), min: 20, max: 1000}
	return p
}

// coreCounts returns 1, 2, 4, … and n.
func coreCounts(n int) (counts []int) {
	for c := 1; c < n; c *= 2 {
		counts = append(counts, c)
	}
	return append(counts, n)
}

// resilience shows where the codes fall back.
func (r *run) resilience() *panel {
	p := &panel{
		title: "(b) probability of falling back to SR, 128 MiB",
		x:     dropAxis(-5, -1),
		y:     axis{label: "probability of fallback", quantity: "fallback_probability", ticks: decadeTicks(-6, 0), min: 1e-6, max: 2},
	}
	for _, c := range []curve{xorCurve, mdsCurve} {
		l := line{name: c.name, look: c.look}
		for _, drop := range logSpace(-5, -1, 6) {
			v, err := c.scheme.(model.EC).FallbackProbability(paperLink(128*units.MiB, drop))
			if err != nil && r.err == nil {
				r.err = err
			}
			l.points = append(l.points, point{x: drop, y: max(v, math.SmallestNonzeroFloat64)})
		}
		p.lines = append(p.lines, l)
	}
	return p
}
