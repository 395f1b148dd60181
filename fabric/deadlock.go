// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
)

// queueOf names a queue: a port and a class.
type queueOf struct {
	port  uint32
	class uint8
}

// Deadlock finds queues that PFC has stopped for good: everything that would have to leave the next
// switch before it lets them resume lies itself in such queues. Nil: there is none. An entry names the
// switch, the neighbour and the class.
func (s *Sim) Deadlock() []string {
	if s.accounts == nil || !s.cfg.Buffer.PFC {
		return nil
	}
	stuck := make(map[queueOf]bool)
	for pi := range s.ports {
		p := &s.ports[pi]
		for c := uint8(1); c < Classes; c++ {
			if p.paused>>c&1 != 0 && p.occupied>>c&1 != 0 && s.nodes[s.wires[pi].node].sw != none && s.accounts[s.wires[pi].rev].pausing>>c&1 != 0 {
				stuck[queueOf{uint32(pi), c}] = true
			}
		}
	}
	// What came in at a port may leave if any of it lies in a queue that is not stuck: the greatest set
	// for which that never happens.
	for changed := true; changed; {
		changed = false
		for q := range stuck {
			if !s.heldBack(q, stuck) {
				delete(stuck, q)
				changed = true
			}
		}
	}
	var names []string
	for pi := range s.ports {
		for c := uint8(1); c < Classes; c++ {
			if stuck[queueOf{uint32(pi), c}] {
				names = append(names, fmt.Sprintf("%s to %s, class %d", s.name(s.owner(uint32(pi))), s.name(s.wires[pi].node), c))
			}
		}
	}
	return names
}

// heldBack reports whether all packets that the next switch counts against queue q lie in stuck
// queues, and whether there are any.
func (s *Sim) heldBack(q queueOf, stuck map[queueOf]bool) bool {
	w := s.wires[q.port]
	nd := &s.nodes[w.node]
	in := uint16(w.rev - nd.firstPort)
	some, all := false, true
	for out := nd.firstPort; out < nd.firstPort+uint32(nd.ports); out++ {
		s.eachQueued(out, func(i uint32) {
			if k := &s.pk[i]; k.in == in && k.class() == q.class {
				some = true
				all = all && stuck[queueOf{out, q.class}]
			}
		})
	}
	return some && all
}

// waits lists, for each port between switches, those that a packet which it holds may wait for next:
// any of the next switch's choices for its destination.
func (s *Sim) waits() [][]uint32 {
	next := make([][]uint32, len(s.ports))
	for pi := range s.ports {
		from, to := s.owner(uint32(pi)), s.wires[pi].node
		if s.nodes[to].sw == none || s.nodes[from].sw == none {
			continue
		}
		seen := make(map[uint32]bool)
		for h := range s.nics {
			if !slices.Contains(s.choices(from, uint32(h)), uint32(pi)) {
				continue
			}
			for _, out := range s.choices(to, uint32(h)) {
				if !seen[out] {
					seen[out] = true
					next[pi] = append(next[pi], out)
				}
			}
		}
	}
	return next
}

// BufferCycle finds ports each of which can wait for the next and the last for the first, given the
// routes: with PFC they can block each other for good (Dally and Seitz, 1987). Nil: there is none.
func (s *Sim) BufferCycle() []string {
	next := s.waits()
	const (
		unseen = iota
		open
		closed
	)
	state := make([]uint8, len(s.ports))
	var path []uint32
	var visit func(pi uint32) []uint32
	visit = func(pi uint32) []uint32 {
		state[pi] = open
		path = append(path, pi)
		for _, q := range next[pi] {
			if state[q] == open {
				for i, x := range path {
					if x == q {
						return path[i:]
					}
				}
			}
			if state[q] == unseen {
				if cycle := visit(q); cycle != nil {
					return cycle
				}
			}
		}
		path = path[:len(path)-1]
		state[pi] = closed
		return nil
	}
	for pi := range s.ports {
		if state[pi] != unseen {
			continue
		}
		if cycle := visit(uint32(pi)); cycle != nil {
			names := make([]string, len(cycle))
			for i, q := range cycle {
				names[i] = fmt.Sprintf("%s to %s", s.name(s.owner(q)), s.name(s.wires[q].node))
			}
			return names
		}
	}
	return nil
}
