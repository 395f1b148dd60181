// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/sdr-rdma/go-sdr/cmd/internal/figures"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// figure draws the link of a plan that has been validated.
func (p *plan) figure(progress io.Writer) (*figures.Figure, error) {
	drops := p.packetDrops()
	l := figures.Link{
		Name: "link", Schemes: p.schemes(), Size: p.sizes[0], Drop: drops[len(drops)/2], Transfer: p.transfer,
		Drops: dropRange(drops, int64(p.chunk/p.mtu)), Sizes: sizeRange(p.sizes, p.rate, p.mtu, p.chunk),
		Subtitle: fmt.Sprintf("%v, RTT %v%s, chunks of %v, packets of %v; %sdrop probabilities are per packet",
			p.rate, units.FormatDuration(p.rtt), p.distanceNote(), p.chunk, p.mtu, p.burstNote()),
	}
	return l.Figure(figures.Config{Samples: p.samples, Seed: p.seed, Threads: p.threads, Progress: progress})
}

// drawnLosses is how many units of a picture are lost at most, unless the plan itself loses more: enough to see where schemes fail.
const drawnLosses = 0.8

// dropRange is the range of a plan, or what surrounds its only drop probability, for chunks of so many packets.
func dropRange(drops []float64, packets int64) [2]float64 {
	low, high := drops[0], drops[len(drops)-1]
	most := min(model.MaxDrop/9, float64(model.UnitDrop(drawnLosses).Packet(packets)))
	switch {
	case high == 0:
		high = min(1e-2, most)
		return [2]float64{high * 1e-4, high}
	case low == 0:
		low = high * 1e-4
	case low == high:
		return [2]float64{max(low/100, 1e-15), max(high, min(max(high*100, 1e-4), most))}
	}
	return [2]float64{low, high}
}

// sizeRange is the range of a plan, or what surrounds its only size.
func sizeRange(sizes []units.Bytes, rate units.Rate, mtu, chunk units.Bytes) [2]units.Bytes {
	low, high := slices.Min(sizes), slices.Max(sizes)
	if low == high {
		most := min(rate.Bytes(model.MaxInjection), min(chunk, model.MaxSize/model.MaxUnits)*model.MaxUnits)
		low, high = max(low/64, min(low, mtu)), min(high*64, most)
	}
	return [2]units.Bytes{low, high}
}
