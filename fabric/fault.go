// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
)

// fault is what is wrong with one direction of a link.
type fault struct {
	down  bool
	lossy bool
	loss  netsim.LossProcess
}

// lost decides about the next packet, which has left at that time. A link that is down loses all.
func (f *fault) lost(at des.Time) bool {
	lost := f.lossy && f.loss.LostAt(at)
	return lost || f.down
}

func (s *Sim) makeFaults() error {
	s.faults = make([]fault, 1)
	used := make([]uint32, len(s.nodes))
	for _, l := range s.graph.Links {
		a, b := s.nextPorts(used, l)
		if l.Loss != 0 {
			if err := s.addLoss(netsim.Loss{Drop: l.Loss}, a, b); err != nil {
				return err
			}
		}
		if l.Down {
			s.faultOf(a).down = true
			s.faultOf(b).down = true
		}
	}
	for _, f := range s.cfg.Faults {
		if f.Link < 0 || f.Link >= len(s.graph.Links) {
			return operr.New("configure", "fabric", "fault of link %d: there are %d", f.Link, len(s.graph.Links))
		}
		a, b := s.linkPorts(f.Link)
		dirs := []uint32{a, b}
		if f.OneWay {
			dirs = dirs[:1]
		}
		if err := s.addLoss(f.Loss, dirs...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sim) addLoss(l netsim.Loss, ports ...uint32) error {
	if err := l.Validate(); err != nil {
		return err
	}
	for _, pi := range ports {
		f := s.faultOf(pi)
		f.lossy, f.loss = true, netsim.NewLossProcess(l, netsim.Mix(s.cfg.Seed)+uint64(pi))
	}
	return nil
}

// faultOf makes the fault of a port if there is none.
func (s *Sim) faultOf(pi uint32) *fault {
	p := &s.ports[pi]
	if p.fault == 0 {
		p.fault = uint32(len(s.faults))
		s.faults = append(s.faults, fault{})
	}
	return &s.faults[p.fault]
}

func (s *Sim) isDown(pi uint32) bool { return s.faults[s.ports[pi].fault].down }

// SetDown takes a link of the graph down or up, from now on: routes are computed anew, what waits for
// the link is lost as it leaves.
func (s *Sim) SetDown(link int, down bool) {
	a, b := s.linkPorts(link)
	s.faultOf(a).down = down
	s.faultOf(b).down = down
	s.makeRoutes()
	s.q.Each(func(e des.Event) {
		if e.Key&^entity == evArrive {
			s.pk[e.Arg].next = nilPort
		}
	})
}
