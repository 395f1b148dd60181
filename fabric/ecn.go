// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"

	"github.com/sdr-rdma/go-sdr/transport"
)

// red is the marking of a port.
type red struct {
	kmin, kmax int64
	pmax       uint64 // in 2^-32
	draws      draws
}

// makeECN gives each port of a switch the first profile that fits its rate.
func (s *Sim) makeECN() {
	s.leastMark = math.MaxInt64
	if len(s.cfg.ECN) == 0 {
		return
	}
	s.red = make([]red, len(s.ports))
	for pi := range s.ports {
		r := &s.red[pi]
		r.kmin, r.kmax = math.MaxInt64, math.MaxInt64
		r.draws = draws(seedOf(s.cfg.Seed, forMarks, pi))
		if s.ports[pi].flags&ofHost != 0 {
			continue
		}
		for _, e := range s.cfg.ECN {
			if e.Rate == 0 || e.Rate == s.rates[pi] {
				r.kmin, r.kmax, r.pmax = int64(e.KMin), int64(e.KMax), uint64(math.Ldexp(e.PMax, 32))
				s.leastMark = min(s.leastMark, r.kmin)
				break
			}
		}
	}
}

// mark draws whether packet k meets congestion, from what waits in its queue: when it
// departs, from what it leaves behind.
func (s *Sim) mark(pi uint32, k *packet) {
	c := k.class()
	if c == 0 || k.flags&transport.ECT == 0 {
		return
	}
	r := &s.red[pi]
	waiting := s.queue(pi, &s.ports[pi], c).bytes
	if waiting <= r.kmin {
		return
	}
	if waiting <= r.kmax {
		draw := r.draws.next() >> 32
		if draw*uint64(r.kmax-r.kmin) >= r.pmax*uint64(waiting-r.kmin) {
			return
		}
	}
	if k.flags&transport.CE == 0 {
		s.marked++
	}
	k.flags |= transport.CE
	s.marks++
	if s.stats != nil {
		s.stats[pi].Marks++
	}
}
