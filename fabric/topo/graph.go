// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strconv"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Kind says what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Host Kind = iota
	Switch
)

// A Node is a host or a switch.
type Node struct {
	Kind Kind
	Name string
	// Tier is how far above the hosts a switch is: 1 for those that hosts are connected to, and so
	// on. It is 0 for hosts, and for switches of which it isn't known.
	Tier int
}

// A Link connects two nodes in both directions.
type Link struct {
	A, B  int // nodes; the same for a link that leads back
	Rate  units.Rate
	Delay units.Duration // propagation, one way
	Loss  float64        // probability that a packet is lost, per packet and direction
	Down  bool           // a link that has failed: there, but carries nothing
}

// A Graph is a network. The number of a node is its index in Nodes. The ports of a node are its links
// in the order of Links, numbered from 0; a link from a node to itself is two ports in a row.
type Graph struct {
	Nodes []Node
	Links []Link
}

// Bounds of what a description may ask for: 100 times today's largest clusters, and what still fits
// the memory of a small machine.
const (
	MaxNodes = 1 << 18
	MaxLinks = 1 << 21
	maxDelay = 10 * units.Second
	maxRate  = 10 * units.Tbit
)

// Hosts returns the numbers of the hosts, ascending.
func (g *Graph) Hosts() []int {
	var hosts []int
	for i, n := range g.Nodes {
		if n.Kind == Host {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// Validate reports the first thing that no network can have: links to nowhere, without a rate, or
// with a negative delay; hosts without a working link; hosts that can't reach each other.
func (g *Graph) Validate() error {
	if len(g.Nodes) > MaxNodes || len(g.Links) > MaxLinks {
		return operr.New("validate", "topology", "%d nodes and %d links: at most %d and %d fit", len(g.Nodes), len(g.Links), MaxNodes, MaxLinks)
	}
	working := make([]int, len(g.Nodes))
	for i, l := range g.Links {
		if err := g.checkLink(l); err != nil {
			return operr.New("validate", "topology", "link %d: %w", i, err)
		}
		if !l.Down && l.A != l.B {
			working[l.A]++
			working[l.B]++
		}
	}
	hosts := 0
	for i, n := range g.Nodes {
		switch {
		case n.Kind > Switch:
			return operr.New("validate", "topology", "node %s is neither host nor switch", g.name(i))
		case n.Kind == Switch:
		case working[i] == 0:
			return operr.New("validate", "topology", "host %s has no working link", g.name(i))
		default:
			hosts++
		}
	}
	if hosts < 2 {
		return operr.New("validate", "topology", "%d hosts: at least two are needed", hosts)
	}
	return g.checkConnected()
}

func (g *Graph) checkLink(l Link) error {
	switch {
	case l.A < 0 || l.B < 0 || l.A >= len(g.Nodes) || l.B >= len(g.Nodes):
		return fmt.Errorf("it connects %d and %d, but nodes are 0 to %d", l.A, l.B, len(g.Nodes)-1)
	case l.Rate <= 0 || l.Rate > maxRate:
		return fmt.Errorf("its rate is %d bit/s: must be above 0, at most %v", l.Rate, maxRate)
	case l.Delay < 0 || l.Delay > maxDelay:
		return fmt.Errorf("its delay is %v: must be within 0 and %v", l.Delay, maxDelay)
	case !(l.Loss >= 0 && l.Loss <= 1):
		return fmt.Errorf("its loss is %g per packet: must be within 0 and 1", l.Loss)
	case l.A == l.B && g.Nodes[l.A].Kind == Host:
		return fmt.Errorf("it connects host %s with itself: only switches may have such links", g.name(l.A))
	}
	return nil
}

// checkConnected reports a host that the first host can't reach. Hosts don't forward.
func (g *Graph) checkConnected() error {
	at := g.adjacency()
	first := 0
	for g.Nodes[first].Kind != Host {
		first++
	}
	seen := make([]bool, len(g.Nodes))
	seen[first] = true
	for queue := []int{first}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if n != first && g.Nodes[n].Kind == Host {
			continue
		}
		for _, li := range at[n] {
			l := g.Links[li]
			if o := l.A + l.B - n; !l.Down && !seen[o] {
				seen[o] = true
				queue = append(queue, o)
			}
		}
	}
	for i, n := range g.Nodes {
		if n.Kind == Host && !seen[i] {
			return operr.New("validate", "topology", "no working path from host %s to host %s: let fewer links be down", g.name(first), g.name(i))
		}
	}
	return nil
}

// adjacency returns the links of each node. A link from a node to itself is there twice.
func (g *Graph) adjacency() [][]int32 {
	at := make([][]int32, len(g.Nodes))
	for i, l := range g.Links {
		at[l.A] = append(at[l.A], int32(i))
		at[l.B] = append(at[l.B], int32(i))
	}
	return at
}

// name is what an error calls a node: its number, and its name where it has one.
func (g *Graph) name(i int) string {
	if n := g.Nodes[i].Name; n != "" {
		return n
	}
	return strconv.Itoa(i)
}

func (g *Graph) add(kind Kind, tier int, prefix string, n int) (first int) {
	first = len(g.Nodes)
	for i := range n {
		g.Nodes = append(g.Nodes, Node{Kind: kind, Name: prefix + strconv.Itoa(i), Tier: tier})
	}
	return first
}

func (g *Graph) link(a, b int, rate units.Rate, delay units.Duration) {
	g.Links = append(g.Links, Link{A: a, B: b, Rate: rate, Delay: delay})
}
