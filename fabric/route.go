// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"
	"slices"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
)

const nilPort = ^uint32(0)

// Values in routes that are no index of a set.
const (
	toHost  = ^uint32(0) // the destination hangs on this switch
	noRoute = ^uint32(0) - 1
)

// router is the routing tables of all switches. Hosts on the same switch share their entries.
type router struct {
	// edge is the number of the edge switch of each NIC, down the port there that leads to it.
	edge []uint32
	down []uint32
	// routes has an entry for each switch and edge switch: toHost, noRoute or an index in sets,
	// where the number of ports and then the ports are.
	edges  uint32
	routes []uint32
	sets   []uint32
	draws  []draws // by switch
	let    [][]flowlet
}

// flowlet is an entry in a switch's table.
type flowlet struct {
	last des.Time
	port uint32
	flow uint32
}

const flowlets = 1 << 12

// makeRoutes computes the tables for the links that are up.
func (s *Sim) makeRoutes() {
	r := &s.router
	r.edge, r.down = slices.Repeat([]uint32{nilPort}, len(s.nics)), slices.Repeat([]uint32{nilPort}, len(s.nics))
	edgeOf := make(map[uint32]uint32)
	var edges []uint32
	for h, nic := range s.nics {
		if s.isDown(nic) || s.nodes[s.wires[nic].node].sw == none {
			continue
		}
		sw := s.wires[nic].node
		e, ok := edgeOf[sw]
		if !ok {
			e = uint32(len(edges))
			edgeOf[sw] = e
			edges = append(edges, sw)
		}
		r.edge[h], r.down[h] = e, s.wires[nic].rev
	}
	r.edges = uint32(len(edges))
	r.routes = slices.Repeat([]uint32{noRoute}, s.switches*len(edges))
	r.sets = r.sets[:0]
	upDown := s.tiered()
	known := make(map[string]uint32)
	for e, sw := range edges {
		next := s.shortest(sw)
		if upDown {
			next = s.upThenDown(sw)
		}
		for n := range s.nodes {
			if s.nodes[n].sw == none {
				continue
			}
			at := &r.routes[uint32(s.nodes[n].sw)*r.edges+uint32(e)]
			switch {
			case uint32(n) == sw:
				*at = toHost
			case len(next[n]) > 0:
				*at = r.intern(known, next[n])
			}
		}
	}
}

// intern stores a set of ports once.
func (r *router) intern(known map[string]uint32, ports []uint32) uint32 {
	key := make([]byte, 0, 4*len(ports))
	for _, p := range ports {
		key = append(key, byte(p), byte(p>>8), byte(p>>16), byte(p>>24))
	}
	if at, ok := known[string(key)]; ok {
		return at
	}
	at := uint32(len(r.sets))
	known[string(key)] = at
	r.sets = append(append(r.sets, uint32(len(ports))), ports...)
	return at
}

// tiered reports whether the graph says of each switch on which tier it is.
func (s *Sim) tiered() bool {
	for i, n := range s.graph.Nodes {
		if s.nodes[i].sw != none && n.Tier <= 0 {
			return false
		}
	}
	return true
}

// shortest finds, for each node, the ports on shortest ways to switch dst, in the order in which a
// breadth-first search from dst that visits neighbours by number meets what they lead to: ns-3's
// order.
func (s *Sim) shortest(dst uint32) [][]uint32 {
	dist := slices.Repeat([]int32{none}, len(s.nodes))
	next := make([][]uint32, len(s.nodes))
	dist[dst] = 0
	queue := []uint32{dst}
	for ; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, p := range s.liveByNeighbour(n) {
			m := s.wires[p].node
			if s.nodes[m].sw == none {
				continue
			}
			if dist[m] == none {
				dist[m] = dist[n] + 1
				queue = append(queue, m)
			}
			if dist[m] == dist[n]+1 {
				next[m] = append(next[m], s.wires[p].rev)
			}
		}
	}
	return next
}

// liveByNeighbour lists the ports of n whose links are up, by the number of the neighbour.
func (s *Sim) liveByNeighbour(n uint32) []uint32 {
	nd := &s.nodes[n]
	var live []uint32
	for p := nd.firstPort; p < nd.firstPort+uint32(nd.ports); p++ {
		if !s.isDown(p) {
			live = append(live, p)
		}
	}
	slices.SortStableFunc(live, func(a, b uint32) int { return int(s.wires[a].node) - int(s.wires[b].node) })
	return live
}

// upThenDown finds, for each node, the ports on shortest ways to switch dst that first go up, cross
// to the same tier at most once, and then go down: so no cycle of buffers can wait for itself.
// A switch that can go down does.
func (s *Sim) upThenDown(dst uint32) [][]uint32 {
	tier := func(n uint32) int { return s.graph.Nodes[n].Tier }
	down := slices.Repeat([]int32{none}, len(s.nodes))
	down[dst] = 0
	for queue := []uint32{dst}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, p := range s.liveByNeighbour(n) {
			if m := s.wires[p].node; s.nodes[m].sw != none && tier(m) > tier(n) && down[m] == none {
				down[m] = down[n] + 1
				queue = append(queue, m)
			}
		}
	}
	var order []uint32
	for n := range s.nodes {
		if s.nodes[n].sw != none {
			order = append(order, uint32(n))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return tier(b) - tier(a) })
	dist := slices.Clone(down)
	next := make([][]uint32, len(s.nodes))
	for _, n := range order {
		// far is the distance through a neighbour that may be next; none if it may not.
		far := func(m uint32) int32 {
			switch {
			case s.nodes[m].sw == none:
				return none
			case down[n] != none:
				if tier(m) < tier(n) {
					return down[m]
				}
				return none
			case tier(m) > tier(n):
				return dist[m]
			case tier(m) == tier(n):
				return down[m]
			}
			return none
		}
		best := int32(none)
		for _, p := range s.liveByNeighbour(n) {
			if d := far(s.wires[p].node); d != none && (best == none || d < best) {
				best = d
			}
		}
		if best == none {
			continue
		}
		if n != dst {
			dist[n] = best + 1
		}
		for _, p := range s.liveByNeighbour(n) {
			if far(s.wires[p].node) == best {
				next[n] = append(next[n], p)
			}
		}
	}
	return next
}

// endpoints is what routing needs of a flow: 20 bytes.
type endpoints struct {
	src, dst         uint32 // nodes
	from, to         uint32 // NICs
	srcPort, dstPort uint16
}

// destination is where packet k of flow e goes.
func (e *endpoints) destination(k *packet) uint32 {
	if k.what().ToSender() {
		return e.src
	}
	return e.dst
}

// address is the NIC to which packet k of flow e goes.
func (e *endpoints) address(k *packet) uint32 {
	if k.what().ToSender() {
		return e.from
	}
	return e.to
}

// choices are the ports of switch n that lead to NIC dst.
func (s *Sim) choices(n, dst uint32) []uint32 {
	r := &s.router
	if r.edge[dst] == nilPort {
		return nil
	}
	switch at := r.routes[uint32(s.nodes[n].sw)*r.edges+r.edge[dst]]; at {
	case toHost:
		return r.down[dst : dst+1]
	case noRoute:
		return nil
	default:
		return r.sets[at+1 : at+1+r.sets[at]]
	}
}

// route chooses the port of switch n for packet i; nilPort: there is none.
func (s *Sim) route(n, i uint32) uint32 {
	k := &s.pk[i]
	e := &s.ends[k.flow]
	ports := s.choices(n, e.address(k))
	switch len(ports) {
	case 0:
		return nilPort
	case 1:
		return ports[0]
	}
	sw := s.nodes[n].sw
	switch s.cfg.Routing.Mode {
	case Random:
		return ports[s.router.draws[sw].below(len(ports))]
	case LeastQueue:
		return s.leastQueue(sw, ports)
	case Flowlet:
		return s.flowlet(sw, k, ports)
	}
	return ports[s.hash(n, sw, k, e, len(ports))]
}

// hash chooses one of n ports.
func (s *Sim) hash(node uint32, sw int32, k *packet, e *endpoints, n int) int {
	entropy := uint64(0)
	if s.cfg.Routing.Mode == Entropy {
		entropy = uint64(k.entropy)
	}
	src, dst, ports := e.src, e.dst, uint64(e.srcPort)<<16|uint64(e.dstPort)
	switch s.cfg.Routing.Hash {
	case Murmur:
		sp, dp := uint32(e.srcPort)^uint32(entropy), uint32(e.dstPort)
		if k.what().ToSender() {
			src, dst, sp, dp = dst, src, dp, sp
		}
		return int(murmur3(node, Address(int(src)), Address(int(dst)), sp|dp<<16) % uint32(n))
	case Symmetric:
		// Both directions are hashed as the data are.
	default:
		if k.what().ToSender() {
			src, dst, ports = dst, src, ports<<16|ports>>16&0xffff
		}
	}
	h := netsim.Mix(uint64(src)<<32|uint64(dst)) ^ netsim.Mix(ports<<16^entropy^s.hashSeeds[sw])
	hi, _ := bits.Mul64(netsim.Mix(h), uint64(n))
	return int(hi)
}

// Address is the IPv4 address of a node, as ns-3's scripts number them: 11.0.0.1 and on, the number's
// second byte in the second byte of the address and its first in the third.
func Address(node int) uint32 {
	return 0x0b000001 + uint32(node/256)<<16 + uint32(node%256)<<8
}

// murmur3 is MurmurHash3_x86_32 over three words.
func murmur3(seed uint32, words ...uint32) uint32 {
	h := seed
	for _, w := range words {
		w *= 0xcc9e2d51
		w = bits.RotateLeft32(w, 15)
		w *= 0x1b873593
		h = bits.RotateLeft32(h^w, 13)*5 + 0xe6546b64
	}
	h ^= uint32(4 * len(words))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// weightShift makes the time of a byte small enough for that of a queue of 256 GiB at 1 Mbit/s, and leaves 1/64 of it at 1 Tbit/s.
const weightShift = 17

// leastQueue compares ports from a random one on, so that ties are broken at random.
func (s *Sim) leastQueue(sw int32, ports []uint32) uint32 {
	n, sampled := len(ports), s.cfg.Routing.Choices
	at := s.router.draws[sw].below(n)
	best, least := nilPort, int64(1)<<62
	for tries := 0; tries < n; tries++ {
		p := &s.ports[ports[at]]
		waiting := p.egress << 1
		if s.cfg.Routing.Weighted {
			waiting = int64(min(uint64(p.egress)*(s.speeds[p.speed].cost>>weightShift), 1<<60)) << 1
		}
		if p.busy > s.now {
			waiting++ // a free wire is better than one in use
		}
		if waiting < least {
			best, least = ports[at], waiting
			if waiting == 0 {
				break
			}
		}
		if sampled > 0 {
			if tries+1 == sampled {
				break
			}
			at = s.router.draws[sw].below(n)
		} else if at++; at == n {
			at = 0
		}
	}
	return best
}

// flowlet stays with the port of the flow's last packet unless the flow has paused. Flows that share
// an entry of the table throw each other out.
func (s *Sim) flowlet(sw int32, k *packet, ports []uint32) uint32 {
	direction := uint32(0)
	if k.what().ToSender() {
		direction = 1
	}
	key := k.flow<<1 | direction
	f := &s.router.let[sw][netsim.Mix(uint64(key))%flowlets]
	if f.flow != key || s.now-f.last > s.flowletGap || !slices.Contains(ports, f.port) {
		f.port = ports[s.router.draws[sw].below(len(ports))]
	}
	f.flow, f.last = key, s.now
	return f.port
}
