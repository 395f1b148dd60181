// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strings"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// The grid of Figure 9.
func figure9Sizes() []float64 { return sizes(128*units.KiB, 8*units.GiB) }
func figure9Drops() []float64 { return logSpace(-7, -1, 2) }

// figure9: "Erasure Coding (EC) improvements (speedup) over Selective Repeat (SR) simulated at 400
// Gbit/s and 25 ms RTT".
func figure9(r *run) *Figure {
	avg, tail := r.figure9Grid()
	f := &Figure{
		Title:    "Figure 9: speed-up of EC MDS (32,8) over SR RTO (3 RTT)",
		Subtitle: paperLinkText,
		height:   4.4, width: 5,
	}
	for _, v := range []float64{0.8, 0.9, 1, 1.5, 3, 6, 12} {
		name := fmt.Sprintf("%gx", v)
		switch v {
		case 0.8:
			name = "SR faster: 0.8x"
		case 12:
			name = "12x: EC faster"
		}
		f.legend = append(f.legend, key{name: name, fill: avg.color(v)})
	}
	x := axis{label: "drop probability of a 64 KiB unit", quantity: "unit_drop", ticks: indexTicks(avg.cols), linear: true}
	y := axis{label: "message size", quantity: "speedup", ticks: indexTicks(avg.rows), linear: true}
	f.panels = [][]*panel{{
		{title: "average", x: x, y: y, heat: avg},
		{title: "99.9th percentile", x: x, y: y, heat: tail},
	}}
	return f
}

// figure9Grid simulates both schemes at each point of the grid.
func (r *run) figure9Grid() (avg, tail *heat) {
	avg, tail = &heat{max: 13}, &heat{max: 13}
	for _, h := range []*heat{avg, tail} {
		h.xs, h.ys = figure9Drops(), figure9Sizes()
		for i, p := range h.xs {
			label := ""
			if i%2 == 0 {
				label = fmt.Sprintf("%.0e", p)
			}
			h.cols = append(h.cols, trimExponent(label))
		}
		for _, s := range h.ys {
			h.rows = append(h.rows, units.Bytes(s).String())
		}
	}
	for i, size := range avg.ys {
		r.step("figure 9: %s (%d of %d)", avg.rows[i], i+1, len(avg.rows))
		var a, q []point
		for _, p := range avg.xs {
			t := paperLink(units.Bytes(size), p)
			s, e := r.simulate(sr, t), r.simulate(mds, t)
			if s == nil || e == nil {
				return avg, tail
			}
			a, q = append(a, speedup(s, e, average)), append(q, speedup(s, e, p999))
		}
		avg.cells, tail.cells = append(avg.cells, a), append(tail.cells, q)
	}
	return avg, tail
}

// speedup returns how much faster b is than a. The interval takes both at their unfavourable ends.
func speedup(a, b *model.Result, s statistic) point {
	x, y := s.of(a), s.of(b)
	return point{
		y:    float64(x.Value) / float64(y.Value),
		low:  float64(x.Low) / float64(y.High),
		high: float64(x.High) / float64(y.Low),
	}
}

// trimExponent turns 1e-05 into 1e-5.
func trimExponent(s string) string { return strings.Replace(s, "e-0", "e-", 1) }
