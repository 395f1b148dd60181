// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure12: "Impact of inter-DC distance and bandwidth on 128 MiB Write completion time", and on
// 8 GiB, for which section 5.2.2 predicts that EC overtakes SR.
func figure12(r *run) *Figure {
	curves := []curve{srCurve, nackCurve, mdsCurve, adaptiveCurve}
	f := &Figure{
		Title:    "Figure 12: distance and bandwidth, average over the ideal",
		Subtitle: "64 KiB units, p = 1e-4 per unit for 128 MiB and 1e-5 for 8 GiB",
		legend:   keys(curves), height: 3.2,
	}
	rates := sizes(25, 6400)
	rateAxis := axis{
		label: "bandwidth in Gbit/s", quantity: "rate_gbps",
		ticks: valueTicks("%g", 25, 100, 400, 1600, 6400), min: 25, max: 6400,
	}
	for i, c := range []struct {
		size units.Bytes
		drop float64
		top  float64
	}{{128 * units.MiB, 1e-4, 2}, {8 * units.GiB, 1e-5, 4}} {
		r.step("figure 12: %v", c.size)
		f.panels = append(f.panels, []*panel{
			{
				title: fmt.Sprintf("(%c) %v at 400 Gbit/s", 'a'+2*i, c.size), x: distanceAxis(), y: slowdownAxis(c.top),
				lines: r.sweep(curves, distances(), func(km float64) model.Transfer {
					return r.at(km, paperLink(c.size, c.drop))
				}, average),
			},
			{
				title: fmt.Sprintf("(%c) %v over 3750 km", 'b'+2*i, c.size), x: rateAxis, y: slowdownAxis(c.top),
				lines: r.sweep(curves, rates, func(gbit float64) model.Transfer {
					t := paperLink(c.size, c.drop)
					t.Rate = units.Rate(gbit) * units.Gbit
					return t
				}, average),
			},
		})
	}
	return f
}
