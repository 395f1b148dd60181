// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure13: "99.9th percentile completion time speedup for inter-datacenter ring Allreduce with MDS EC
// over SR RTO reliability. Left: 128 MiB buffer size. Right: 4 datacenters."
func figure13(r *run) *Figure {
	f := &Figure{
		Title:    "Figure 13: ring Allreduce, 99.9th-percentile speed-up of EC MDS (32,8) over SR RTO",
		Subtitle: paperLinkText,
		height:   3.7,
	}
	y := axis{label: "speed-up at the 99.9th percentile", quantity: "speedup", ticks: valueTicks("%gx", 1, 2, 3, 4, 6, 8, 10), min: 0.9, max: 12}
	left := &panel{title: "(a) 128 MiB buffer", x: dropAxis(-6, -1), y: y}
	right := &panel{title: "(b) 4 datacenters", x: dropAxis(-6, -1), y: y}
	for i, n := range []int{2, 4, 8, 16} {
		left.lines = append(left.lines, r.ring(fmt.Sprintf("%d datacenters", n), numbered[i], n, 128*units.MiB))
	}
	for i, size := range []units.Bytes{8 * units.MiB, 32 * units.MiB, 128 * units.MiB, 512 * units.MiB, 2 * units.GiB} {
		right.lines = append(right.lines, r.ring(fmt.Sprintf("%v buffer", size), numbered[i], 4, size))
	}
	for _, p := range []*panel{left, right} {
		for _, l := range p.lines {
			p.legend = append(p.legend, key{name: l.name, look: l.look})
		}
	}
	f.panels = [][]*panel{{left, right}}
	return f
}

// ring returns the speed-up of EC over SR at each drop probability.
func (r *run) ring(name string, look look, n int, size units.Bytes) line {
	l := line{name: name, look: look}
	r.step("figure 13: %s", name)
	o := model.Options{Samples: r.Samples, Seed: r.Seed, Threads: r.Threads}
	for _, p := range logSpace(-6, -1, 3) {
		if r.err != nil {
			break
		}
		var a, b *model.Result
		if a, r.err = (model.Ring{Datacenters: n, Scheme: sr}).Simulate(paperLink(size, p), o); r.err != nil {
			break
		}
		if b, r.err = (model.Ring{Datacenters: n, Scheme: mds}).Simulate(paperLink(size, p), o); r.err != nil {
			break
		}
		pt := speedup(a, b, p999)
		pt.x = p
		l.points = append(l.points, pt)
	}
	return l
}
