// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/units"
)

// A tally collects what is told of messages.
type tally struct {
	sites              []int // of the network: see sites
	started, repeating int

	// Of those that are complete: completion times, sizes with slowdowns, slowdowns by class, and sums.
	fct            []float64
	sizes          []sized
	by             map[string][]float64
	rates, squares float64 // of their rates, and of the squares of these
	last           float64 // when the last ended
	payload        units.Bytes
	groups         map[string]groupFCT
	sizesIn        map[string][]sized
}

// add takes a message of a group, and how long it would take alone.
func (t *tally) add(f fabric.Flow, alone des.Time, group string) {
	if f.Start != des.Never {
		t.started++
	}
	if f.Repeated > 0 {
		t.repeating++
	}
	if f.FCT == des.Never {
		return
	}
	took := nanoseconds(f.FCT)
	x := took / nanoseconds(alone)
	t.fct, t.sizes = append(t.fct, took), append(t.sizes, sized{f.Size, x})
	for _, class := range t.classes(&f) {
		t.by[class] = append(t.by[class], x)
	}
	rate := float64(f.Size) * 8 / took
	t.rates, t.squares, t.last = t.rates+rate, t.squares+rate*rate, max(t.last, nanoseconds(f.Start)+took)
	t.payload += f.Size
	g := t.groups[group]
	t.groups[group] = groupFCT{Flows: g.Flows + 1, LastNS: max(g.LastNS, nanoseconds(f.Received))}
	t.sizesIn[group] = append(t.sizesIn[group], sized{f.Size, x})
}

// classes are where a message counts: by its size, and by whether it stays in its part of the network.
func (t *tally) classes(f *fabric.Flow) []string {
	size := sizeClass(f.Size)
	if t.sites == nil {
		return []string{size}
	}
	where := "intra"
	if t.sites[f.Src] != t.sites[f.Dst] {
		where = "inter"
	}
	return []string{size, where, where + " " + size}
}

// report sums up.
func (t *tally) report(rep *report) {
	rep.PayloadBytes = t.payload
	if t.started > 0 {
		rep.Packets.Repeating = float64(t.repeating) / float64(t.started)
	}
	if n := len(t.fct); n > 0 {
		rep.Jain = t.rates * t.rates / t.squares / float64(n)
		rep.GoodputGbps = float64(t.payload) * 8 / t.last
	}
	if len(t.groups) > 1 {
		for name, g := range t.groups {
			g.Slowdown = slowdownsOf(t.sizesIn[name])
			t.groups[name] = g
		}
		rep.Groups = t.groups
	}
	rep.FCT = distribute(t.fct)
	rep.Slowdown = slowdownsOf(t.sizes)
	rep.Slowdown.ByClass = map[string]classSlow{}
	for c, v := range t.by {
		d := distribute(v)
		rep.Slowdown.ByClass[c] = classSlow{len(v), d.Avg, d.P99}
	}
}
