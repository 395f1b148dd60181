// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Wire is what a kind of link of a builder is made of.
type Wire struct {
	Rate  units.Rate
	Delay units.Duration
}

// Star connects n hosts to one switch. Host i is node i.
func Star(n int, w Wire) (*Graph, error) {
	if err := sized("star", n, n); err != nil {
		return nil, err
	}
	g := &Graph{}
	hosts := g.add(Host, 0, "h", n)
	s := g.add(Switch, 1, "s", 1)
	for i := range n {
		g.link(hosts+i, s, w.Rate, w.Delay)
	}
	return g, g.Validate()
}

// A Clos is the shape of a leaf–spine network.
type Clos struct {
	Leaves, Hosts int // Hosts are those of each leaf
	Spines        int // each leaf has one link to each spine
	Down, Up      Wire
	// Rails is how many NICs each host has, 0 for one: as many leaves in a row serve the same Hosts
	// hosts, each of them one NIC.
	Rails int
	// FailLeaves leaves, spread evenly, have FailLinks links to spines that are down.
	FailLeaves, FailLinks int
	// SlowSpines spines have links of 1/SlowBy of the rate of Up; 0: none.
	SlowSpines, SlowBy int
}

// LeafSpine builds a two-tier network: hosts first, those of a leaf in a row, then leaves, then
// spines. Links are those of hosts, in their order, then those of leaf 0 to all spines, and so on.
func LeafSpine(c Clos) (*Graph, error) {
	switch {
	case c.Leaves < 1 || c.Hosts < 1 || c.Spines < 1:
		return nil, operr.New("build", "leafspine", "%d leaves of %d hosts and %d spines: each must be at least 1", c.Leaves, c.Hosts, c.Spines)
	case c.FailLeaves < 0 || c.FailLeaves > c.Leaves:
		return nil, operr.New("build", "leafspine", "failures at %d leaves: must be within 0 and %d, all there are", c.FailLeaves, c.Leaves)
	case c.FailLinks < 0 || c.FailLinks >= c.Spines && c.FailLeaves > 0:
		return nil, operr.New("build", "leafspine", "%d failed links of a leaf: must be within 0 and %d, so that one of %d is left", c.FailLinks, c.Spines-1, c.Spines)
	case c.SlowSpines < 0 || c.SlowSpines > c.Spines || c.SlowSpines > 0 && (c.SlowBy < 1 || c.SlowBy > 1000):
		return nil, operr.New("build", "leafspine", "%d spines slower by %d: must be within 0 and %d, all there are, and 1 and 1000", c.SlowSpines, c.SlowBy, c.Spines)
	case c.Rails < 0 || c.Rails > 1 && c.Leaves%c.Rails != 0:
		return nil, operr.New("build", "leafspine", "%d leaves for hosts with %d NICs: leaves must be a multiple", c.Leaves, c.Rails)
	case c.Leaves > MaxNodes || c.Hosts > MaxNodes || c.Spines > MaxNodes:
		return nil, sized("leafspine", MaxNodes+1, 0)
	}
	rails := max(c.Rails, 1)
	if err := sized("leafspine", c.Leaves/rails*c.Hosts+c.Leaves+c.Spines, c.Leaves*c.Hosts+c.Leaves*c.Spines); err != nil {
		return nil, err
	}
	g := &Graph{}
	hosts := g.add(Host, 0, "h", c.Leaves/rails*c.Hosts)
	leaves := g.add(Switch, 1, "leaf", c.Leaves)
	spines := g.add(Switch, 2, "spine", c.Spines)
	for h := range c.Leaves / rails * c.Hosts {
		for r := range rails {
			g.link(hosts+h, leaves+h/c.Hosts*rails+r, c.Down.Rate, c.Down.Delay)
		}
	}
	for l := range c.Leaves {
		for s := range c.Spines {
			rate := c.Up.Rate
			if s < c.SlowSpines {
				rate /= units.Rate(c.SlowBy)
			}
			g.link(leaves+l, spines+s, rate, c.Up.Delay)
		}
	}
	for i := range c.FailLeaves {
		leaf := i * c.Leaves / c.FailLeaves
		for j := range c.FailLinks {
			// Different spines at different leaves, as failures of links, not of spines, have it.
			spine := (i + j*c.Spines/c.FailLinks) % c.Spines
			g.Links[c.Leaves*c.Hosts+leaf*c.Spines+spine].Down = true
		}
	}
	return g, g.Validate()
}

// FatTree builds the three-tier network of switches with k ports (Al-Fares et al., SIGCOMM 2008): k
// pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches, k³/4 hosts. Aggregation
// switch i of each pod is connected to the core switches i·k/2 to (i+1)·k/2-1. Hosts are first, then
// edge, aggregation and core switches, pod by pod.
func FatTree(k int, w Wire) (*Graph, error) {
	if k < 2 || k%2 != 0 || k > 128 {
		return nil, operr.New("build", "fattree", "switches of %d ports: must be an even number from 2 to 128", k)
	}
	half := k / 2
	if err := sized("fattree", k*half*half+k*k+half*half, 3*k*half*half); err != nil {
		return nil, err
	}
	g := &Graph{}
	hosts := g.add(Host, 0, "h", k*half*half)
	edges := g.add(Switch, 1, "edge", k*half)
	aggs := g.add(Switch, 2, "agg", k*half)
	cores := g.add(Switch, 3, "core", half*half)
	for h := range k * half * half {
		g.link(hosts+h, edges+h/half, w.Rate, w.Delay)
	}
	for e := range k * half {
		for a := range half {
			g.link(edges+e, aggs+e/half*half+a, w.Rate, w.Delay)
		}
	}
	for a := range k * half {
		for c := range half {
			g.link(aggs+a, cores+a%half*half+c, w.Rate, w.Delay)
		}
	}
	return g, g.Validate()
}

// DC2 builds the two data centres of THEMIS (figure 1 of that paper), with nodes and links in the
// order of its authors' topology file: nodes 0-31 are hosts, 32-39 ToR switches of four hosts each,
// 40-47 leaves, four for the four ToRs of a data centre in a full mesh, 48 and 49 the edge switches
// that all leaves of a data centre are connected to. Links are 100 Gbit/s up to the leaves and
// 400 Gbit/s to the edge switch, 1 µs; the long one is 1.6 Tbit/s. Each edge switch also has a link
// of 1.6 Tbit/s and 100 ns to itself, for recirculation.
func DC2(distance units.Duration) (*Graph, error) {
	g := &Graph{}
	hosts := g.add(Host, 0, "h", 32)
	tors := g.add(Switch, 1, "tor", 8)
	leaves := g.add(Switch, 2, "leaf", 8)
	esw := g.add(Switch, 3, "esw", 2)
	for h := range 32 {
		g.link(hosts+h, tors+h/4, 100*units.Gbit, units.Microsecond)
	}
	for t := range 8 {
		for l := range 4 {
			g.link(tors+t, leaves+t/4*4+l, 100*units.Gbit, units.Microsecond)
		}
	}
	for l := range 8 {
		g.link(leaves+l, esw+l/4, 400*units.Gbit, units.Microsecond)
	}
	g.link(esw, esw+1, 1600*units.Gbit, distance)
	for _, e := range []int{esw + 1, esw} {
		g.link(e, e, 1600*units.Gbit, 100*units.Nanosecond)
	}
	return g, g.Validate()
}

func sized(kind string, nodes, links int) error {
	if nodes > MaxNodes || links > MaxLinks {
		return operr.New("build", kind, "more than %d nodes or %d links: choose smaller numbers", MaxNodes, MaxLinks)
	}
	return nil
}
