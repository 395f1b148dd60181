// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// node is a host or a switch.
type node struct {
	firstPort uint32
	ports     uint16
	// host is the number of the first NIC of a host, sw that of a switch; the other is none.
	host, sw int32
}

const none = -1

func (s *Sim) makeNodes() {
	s.nodes = make([]node, len(s.graph.Nodes))
	for i, n := range s.graph.Nodes {
		nd := &s.nodes[i]
		nd.host, nd.sw = none, none
		if n.Kind == topo.Switch {
			nd.sw = int32(s.switches)
			s.switches++
			continue
		}
		nd.host = 0 // until makeLinks
	}
}

func (s *Sim) makeLinks() error {
	degree := make([]int, len(s.nodes))
	for i, l := range s.graph.Links {
		if l.Rate < units.Mbit {
			return operr.New("configure", "fabric", "link %d with %d bit/s: the simulator takes 1 Mbit/s and more", i, int64(l.Rate))
		}
		degree[l.A]++
		degree[l.B]++
	}
	first := 0
	for i := range s.nodes {
		if degree[i] >= int(noPort) {
			return operr.New("configure", "fabric", "node %d has %d links: at most %d", i, degree[i], noPort-1)
		}
		s.nodes[i].firstPort, s.nodes[i].ports = uint32(first), uint16(degree[i])
		if s.nodes[i].host != none {
			s.nodes[i].host = int32(len(s.hosts))
			for n := range degree[i] {
				s.hosts = append(s.hosts, host{wake: des.Never, ring: [Classes]uint32{nilFlow, nilFlow, nilFlow, nilFlow}})
				s.nics = append(s.nics, uint32(first+n))
			}
		}
		first += degree[i]
	}
	s.turns = make([]uint32, len(s.nics))
	s.ports, s.rare, s.wires, s.rates = make([]port, first), make([][Classes - nearClasses]fifo, first), make([]wire, first), make([]units.Rate, first)
	used := make([]uint32, len(s.nodes))
	known := make(map[speed]uint32)
	for _, l := range s.graph.Links {
		a, b := s.nextPorts(used, l)
		s.setPort(known, a, b, l.A, l.B, l)
		s.setPort(known, b, a, l.B, l.A, l)
	}
	return nil
}

// nextPorts are the ports of link l, the one after those that used counts: that of A, then that of B.
func (s *Sim) nextPorts(used []uint32, l topo.Link) (a, b uint32) {
	a = s.nodes[l.A].firstPort + used[l.A]
	used[l.A]++
	b = s.nodes[l.B].firstPort + used[l.B]
	used[l.B]++
	return a, b
}

func (s *Sim) setPort(known map[speed]uint32, pi, rev uint32, from, to int, l topo.Link) {
	p := &s.ports[pi]
	v := speed{costOf(l.Rate), des.Span(l.Delay)}
	if s.nodes[to].sw != none {
		v.prop += des.Span(s.cfg.Latency)
	}
	at, ok := known[v]
	if !ok {
		at = uint32(len(s.speeds))
		known[v] = at
		s.speeds = append(s.speeds, v)
	}
	p.speed, p.owner = at, uint32(from)
	s.wires[pi] = wire{uint32(to), rev}
	if s.nodes[from].host != none {
		p.flags = ofHost
	}
	s.rates[pi] = l.Rate
}

// linkPorts are the two ports of a link of the graph: that of A, then that of B.
func (s *Sim) linkPorts(link int) (a, b uint32) {
	used := make([]uint32, len(s.nodes))
	for _, l := range s.graph.Links[:link+1] {
		a, b = s.nextPorts(used, l)
	}
	return a, b
}

func (s *Sim) slowestHost() units.Rate {
	slowest := units.Rate(math.MaxInt64)
	for _, nic := range s.nics {
		slowest = min(slowest, s.rates[nic])
	}
	return slowest
}

// name is what the graph calls a node, or its number.
func (s *Sim) name(n uint32) string {
	if name := s.graph.Nodes[n].Name; name != "" {
		return name
	}
	return fmt.Sprint(n)
}
