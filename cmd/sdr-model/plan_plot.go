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
		Drops: dropRange(drops), Sizes: sizeRange(p.sizes, p.mtu),
		Subtitle: fmt.Sprintf("%v, RTT %v%s, chunks of %v, packets of %v; %sdrop probabilities are per packet",
			p.rate, units.FormatDuration(p.rtt), p.distanceNote(), p.chunk, p.mtu, p.burstNote()),
	}
	return l.Figure(figures.Config{Samples: p.samples, Seed: p.seed, Threads: p.threads, Progress: progress})
}

// dropRange is the range of a plan, or what surrounds its only drop probability.
func dropRange(drops []float64) [2]float64 {
	low, high := drops[0], drops[len(drops)-1]
	switch {
	case high == 0:
		return [2]float64{1e-6, 1e-2}
	case low == 0:
		low = high * 1e-4
	case low == high:
		return [2]float64{max(low/100, 1e-15), min(max(high*100, 1e-4), model.MaxDrop/9)}
	}
	return [2]float64{low, high}
}

// sizeRange is the range of a plan, or what surrounds its only size.
func sizeRange(sizes []units.Bytes, mtu units.Bytes) [2]units.Bytes {
	low, high := slices.Min(sizes), slices.Max(sizes)
	if low == high {
		low, high = max(low/64, min(low, mtu)), min(high*64, model.MaxSize)
	}
	return [2]units.Bytes{low, high}
}
