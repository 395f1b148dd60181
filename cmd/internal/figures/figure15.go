// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure15 is the lower panel of the paper's: "theoretical chunk drop probability assuming packet drop
// probability 1e-5". Its upper panel is the throughput of a BlueField-3.
func figure15(*run) *Figure {
	const mtu = 4 * units.KiB
	l := line{name: "p_chunk = 1-(1-p)^N", look: mdsLook}
	for chunk := mtu; chunk <= 256*units.KiB; chunk *= 2 {
		p := model.PacketDrop(1e-5).Unit(int64(chunk / mtu))
		l.points = append(l.points, point{x: float64(chunk), y: float64(p)})
	}
	return &Figure{
		Title:    "Figure 15, lower panel: drop probability of a chunk",
		Subtitle: "p = 1e-5 per packet of 4 KiB; p_chunk = 1-(1-p)^N for N packets",
		height:   3.4,
		panels: [][]*panel{{{
			title: "",
			x: axis{
				label: "chunk size", quantity: "chunk_bytes", ticks: sizeTicks(mtu, 256*units.KiB, 1),
				min: float64(mtu) / math.Sqrt2, max: float64(256*units.KiB) * math.Sqrt2,
			},
			y:     axis{label: "drop probability of a chunk", quantity: "chunk_drop", ticks: decadeTicks(-6, -2), min: 1e-6, max: 2e-3},
			lines: []line{l}, bars: true,
		}}},
	}
}
