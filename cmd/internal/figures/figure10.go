// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure10: the 1e-5 column and the 128 MiB row of Figure 9. "(a) variable sized Writes at P = 1e-5;
// (b), (c), (d) 128 MiB Write at various drop rates."
func figure10(r *run) *Figure {
	retransmit := []curve{srCurve, nackCurve}
	all := []curve{srCurve, nackCurve, xorCurve, mdsCurve, adaptiveCurve}
	f := &Figure{
		Title:    "Figure 10: SR, EC and adaptive in detail",
		Subtitle: paperLinkText,
		legend:   keys(all), height: 3.5,
	}
	var splits []curve
	for i, look := range []look{numbered[0], numbered[1], mdsLook, numbered[2], numbered[4]} {
		m := int64(2) << i
		splits = append(splits, curve{fmt.Sprintf("MDS (32,%d)", m), look, split(32, m)})
	}
	drops, small := logSpace(-7, -1, 4), func(p float64) model.Transfer { return paperLink(128*units.MiB, p) }
	r.step("figure 10: sizes, schemes, rounds, splits")
	f.panels = [][]*panel{
		{
			{
				title: "(a) sizes at p = 1e-5", legend: bothKeys(nil), x: sizeAxis(128*units.KiB, 128*units.GiB, 4), y: slowdownAxis(6),
				lines: r.sweep([]curve{srCurve, nackCurve, mdsCurve, adaptiveCurve}, sizes(128*units.KiB, 128*units.GiB), func(x float64) model.Transfer {
					return paperLink(units.Bytes(x), 1e-5)
				}, average, p999),
			},
			{
				title: "(b) schemes at 128 MiB, average", x: dropAxis(-7, -1), y: slowdownAxis(12),
				lines: r.sweep(all, drops, small, average),
			},
		},
		{
			rounds(r.sweep(retransmit, drops, small, average, p999), small(0)),
			{
				title: "(d) MDS splits at 128 MiB, average", legend: keys(splits),
				x: dropAxis(-4, -1), y: slowdownAxis(12), lines: r.sweep(splits, logSpace(-4, -1, 6), small, average),
			},
		},
	}
	return f
}

// rounds shows the same lines as what a transfer costs beyond its ideal, in RTTs.
func rounds(lines []line, t model.Transfer) *panel {
	perRTT := float64(t.Ideal()) / float64(t.RTT)
	for _, l := range lines {
		for i, p := range l.points {
			l.points[i] = point{p.x, (p.y - 1) * perRTT, max(0, p.low-1) * perRTT, (p.high - 1) * perRTT}
		}
	}
	y := axis{label: "time beyond the ideal, in RTTs", quantity: "extra_rtts", linear: true, min: -0.3, max: 16}
	y.ticks = valueTicks("%g", 0, 1, 2, 3, 6, 9, 12, 15)
	return &panel{title: "(c) cost of repeats at 128 MiB", legend: bothKeys(keys([]curve{srCurve, nackCurve})), x: dropAxis(-7, -1), y: y, lines: lines}
}
