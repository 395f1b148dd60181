// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure3: "Impact of reliability on message time at 400 Gbit/s". Left: 3750 km, 1e-5. Middle: 8 GiB,
// 1e-5. Right: 128 MiB, 3750 km.
func figure3(r *run) *Figure {
	curves := []curve{srCurve, mdsCurve, adaptiveCurve}
	f := &Figure{
		Title:    "Figure 3: impact of reliability on message time at 400 Gbit/s",
		Subtitle: paperLinkText,
		legend:   bothKeys(keys(curves)), height: 3.5,
	}
	r.step("figure 3: message size, distance, drop probability")
	f.panels = [][]*panel{{
		{
			title: "(a) 3750 km, p = 1e-5",
			x:     sizeAxis(128*units.KiB, units.TiB, 4), y: slowdownAxis(6),
			lines: r.sweep(curves, sizes(128*units.KiB, units.TiB), func(x float64) model.Transfer {
				return paperLink(units.Bytes(x), 1e-5)
			}, average, p999),
		},
		{
			title: "(b) 8 GiB message, p = 1e-5",
			x:     distanceAxis(), y: slowdownAxis(6),
			lines: r.sweep(curves, distances(), func(km float64) model.Transfer {
				return r.at(km, paperLink(8*units.GiB, 1e-5))
			}, average, p999),
		},
		{
			title: "(c) 128 MiB message, 3750 km",
			x:     dropAxis(-7, -1), y: slowdownAxis(20),
			lines: r.sweep(curves, logSpace(-7, -1, 4), func(p float64) model.Transfer {
				return paperLink(128*units.MiB, p)
			}, average, p999),
		},
	}}
	return f
}

// distances are those of Figures 3b and 12, in km.
func distances() []float64 {
	return []float64{75, 150, 300, 600, 1200, 2400, 3750, 7500, 15000, 30000, 60000}
}

func distanceAxis() axis {
	return axis{
		label: "distance in km (3.33 µs/km one way)", quantity: "distance_km",
		ticks: valueTicks("%g", 75, 300, 1200, 3750, 15000, 60000), min: 75, max: 60000,
	}
}

// at sets the RTT of a distance as the paper calculates it.
func (r *run) at(km float64, t model.Transfer) model.Transfer {
	rtt, err := model.Kilometers(km).RTT(model.PaperSpeed)
	if err != nil && r.err == nil {
		r.err = err
	}
	t.RTT = rtt
	return t
}
