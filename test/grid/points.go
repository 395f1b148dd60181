// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// A network is what the points of a grid have in common.
type network struct {
	rate       units.Rate
	rtt        units.Duration
	mtu, chunk units.Bytes
	headers    units.Bytes // of a packet, counted by the link and in the ideal
	channels   int         // 0: the default
}

// A point is one row: a scheme, a size and a loss, over one connection.
type point struct {
	network
	grid, scheme string
	size         units.Bytes
	drop, burst  float64
	// transfers are measured, after so many that warm the connection up.
	transfers, warmups int
	seed               uint64
	// cold: each transfer is the first of a connection of its own.
	cold bool
	// stress: bursts are counted in packets, also on the way back, which carries
	// control frames only: there a burst of 8 packets, a microsecond of a full link,
	// is a silence of many round trips. Else they last as long as their packets take.
	stress bool
}

func (p *point) String() string {
	warm := ""
	if p.cold {
		warm = " cold"
	}
	return fmt.Sprintf("%s %s, %v, drop %g, burst %g, %d%s transfers", p.grid, p.scheme, p.size, p.drop, p.burst, p.transfers, warm)
}

// A grid is all sizes with all losses.
type grid struct {
	network
	sizes  []units.Bytes
	drops  []float64
	bursts []float64
	// Sizes up to few get many transfers, others 300.
	many int
	few  units.Bytes
	// cold is the size that is also measured on new connections.
	cold units.Bytes
}

var grids = map[string]grid{
	"A": {
		network: network{
			rate: 400 * units.Gbit, rtt: 25 * units.Millisecond, mtu: 64 * units.KiB, chunk: 64 * units.KiB,
		},
		sizes:  []units.Bytes{128 * units.KiB, units.MiB, 16 * units.MiB, 128 * units.MiB, units.GiB, 8 * units.GiB},
		drops:  []float64{0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2},
		bursts: []float64{1},
		many:   5000, few: 128 * units.MiB, cold: 128 * units.MiB,
	},
	"B": {
		network: network{
			rate: 100 * units.Gbit, rtt: 10 * units.Millisecond, mtu: 4 * units.KiB, chunk: 64 * units.KiB,
			headers: 64,
		},
		sizes:  []units.Bytes{units.MiB, 4 * units.MiB, 16 * units.MiB, 64 * units.MiB, 128 * units.MiB},
		drops:  []float64{0, 1e-5, 1e-3, 1e-2},
		bursts: []float64{1, 8},
		many:   2000, few: 16 * units.MiB, cold: 16 * units.MiB,
	},
}

const (
	largeTransfers = 300
	coldTransfers  = 300
	leastTransfers = 5
)

// paced is the rate of user data that fills the link.
func (n *network) paced() units.Rate {
	return n.rate / units.Rate(n.mtu+n.headers) * units.Rate(n.mtu)
}

// ideal is size/rate + RTT, with the headers of as many packets.
func (p *point) ideal() units.Duration {
	packets := (p.size + p.mtu - 1) / p.mtu
	return p.rate.Time(p.size+packets*p.headers) + p.rtt
}

// units is how many packets a transfer has.
func (n *network) units(size units.Bytes) int { return int((size + n.mtu - 1) / n.mtu) }

// warmups is how many transfers of so many units warm a connection up.
func warmups(n int, scale float64) int {
	if scale == 1 {
		return warmTransfers
	}
	return min(warmTransfers, max(leastWarm, (warmUnits+n-1)/n))
}

func (p *point) link() sim.Config {
	loss := sim.Loss{Drop: p.drop, Burst: p.burst, BurstDrop: 1}
	if p.burst > 1 && !p.stress {
		loss = sim.Loss{Drop: p.drop, BurstTime: p.rate.Time(units.Bytes(p.burst * float64(p.mtu+p.headers))), BurstDrop: 1}
	}
	return sim.Config{
		Rate: p.rate, Seed: p.seed, HeaderBytes: p.headers,
		Link: sim.Link{Delay: p.rtt / 2, Loss: loss},
	}
}

// pointsOf lists the points that the options ask for.
func pointsOf(o options, scale float64) (points []point, err error) {
	g, ok := grids[o.grid]
	if !ok {
		return nil, fmt.Errorf("-grid %q: want A or B", o.grid)
	}
	if err := choose(&g.sizes, o.sizes, parseSize); err != nil {
		return nil, fmt.Errorf("-sizes: %w", err)
	}
	if err := choose(&g.drops, o.drops, parseDrop); err != nil {
		return nil, fmt.Errorf("-drops: %w", err)
	}
	for _, scheme := range strings.Split(o.schemes, ",") {
		if err := schemes.Known(scheme); err != nil {
			return nil, err
		}
		for _, size := range g.sizes {
			transfers := largeTransfers
			if size <= g.few {
				transfers = g.many
			}
			transfers = max(leastTransfers, int(float64(transfers)*scale))
			for _, burst := range g.bursts {
				for _, drop := range g.drops {
					if drop == 0 && burst > 1 {
						continue
					}
					p := point{
						network: g.network, grid: o.grid, scheme: scheme, size: size, drop: drop, burst: burst,
						transfers: transfers, warmups: warmups(g.units(size), scale), seed: o.seed, stress: o.stress,
					}
					points = append(points, p)
					if size == g.cold && scheme == "adaptive" {
						p.cold, p.warmups, p.transfers = true, 0, max(leastTransfers, int(coldTransfers*scale))
						points = append(points, p)
					}
				}
			}
		}
	}
	return points, nil
}

func parseSize(text string) (units.Bytes, error) {
	n, err := units.ParseBytes(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%s: at least one byte", text)
	}
	return n, err
}

func parseDrop(text string) (float64, error) {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || !(p >= 0 && p < 1) {
		return 0, fmt.Errorf("%s: from 0 to below 1, such as 1e-3", text)
	}
	return p, nil
}

// choose replaces a list by what text names, if it names anything.
func choose[T any](list *[]T, text string, parse func(string) (T, error)) error {
	if text == "" {
		return nil
	}
	*list = nil
	for _, s := range strings.Split(text, ",") {
		v, err := parse(s)
		if err != nil {
			return err
		}
		*list = append(*list, v)
	}
	return nil
}

// byCost returns the indices of the points, the most expensive first.
func byCost(points []point) []int {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		cost := func(p *point) int { return (p.transfers + p.warmups) * p.units(p.size) }
		return cost(&points[b]) - cost(&points[a])
	})
	return order
}
