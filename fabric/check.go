// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
)

// counters are what is counted in every run.
type counters struct {
	sent, delivered, trimmed, marked, markedArrived, repeated, notified uint64
	sentBytes, deliveredBytes, droppedBytes, trimmedBytes               uint64
	queueFull, bufferFull, linkDown, lostOnWire, noRoute, functionDrop  uint64
	timeouts                                                            uint64 // of messages that are done
	forcedDrop, headersLost                                             uint64
	pauses, resumes, marks                                              uint64   // a packet may be marked several times
	pauseTime                                                           des.Time // of pauses that have ended

	mostHeadroom int64

	finished int // messages
}

func (c *counters) dropped() uint64 {
	return c.queueFull + c.bufferFull + c.linkDown + c.lostOnWire + c.noRoute + c.functionDrop + c.forcedDrop
}

// ledger is the conservation of one flow.
type ledger struct {
	sent, delivered, dropped                              uint64
	sentBytes, deliveredBytes, droppedBytes, trimmedBytes uint64
	under, underBytes                                     uint64 // scratch of Check: in queues and on wires
}

// Check compares everything that is counted twice: packets and bytes sent with those delivered,
// dropped, in queues and on wires, for the whole and (with Config.CheckEvery) for each flow; queues
// with their lists; the memory of switches with what lies in it. It takes time in proportion to the
// network and to the packets in it.
func (s *Sim) Check() error {
	for i := range s.perFlow {
		s.perFlow[i].under, s.perFlow[i].underBytes = 0, 0
	}
	var found, bytes uint64
	sacks := 0
	var see func(i uint32)
	see = func(i uint32) {
		k := &s.pk[i]
		if s.aggregation != nil {
			s.each(*s.aggregation.of(i), see)
		}
		found++
		if k.what() == transport.Sack {
			sacks++
		}
		bytes += uint64(k.size)
		if s.perFlow != nil && k.kind != pause {
			s.perFlow[k.flow].under++
			s.perFlow[k.flow].underBytes += uint64(k.size)
		}
	}
	s.q.Each(func(e des.Event) {
		if e.Key&^entity == evArrive {
			see(e.Arg)
		}
	})
	for pi := range s.ports {
		if err := s.checkPort(uint32(pi), see); err != nil {
			return err
		}
	}
	if s.sent != s.delivered+s.dropped()+found {
		return fmt.Errorf("%d packets sent, but %d delivered, %d dropped and %d under way", s.sent, s.delivered, s.dropped(), found)
	}
	if s.sentBytes != s.deliveredBytes+s.droppedBytes+s.trimmedBytes+bytes {
		return fmt.Errorf("%d bytes sent, but %d delivered, %d dropped, %d trimmed and %d under way", s.sentBytes, s.deliveredBytes, s.droppedBytes, s.trimmedBytes, bytes)
	}
	if uint64(s.live) != found {
		return fmt.Errorf("%d packets in use, %d under way", s.live, found)
	}
	free := 0
	for i := s.free; i != nilPacket; i = s.pk[i].next {
		free++
	}
	if free+s.live != len(s.pk) {
		return fmt.Errorf("%d packets free and %d in use, of %d", free, s.live, len(s.pk))
	}
	if sacks+len(s.freeSack) != len(s.sacks) {
		return fmt.Errorf("%d selective acknowledgements under way and %d free, of %d", sacks, len(s.freeSack), len(s.sacks))
	}
	for i := range s.perFlow {
		l := &s.perFlow[i]
		if l.sent != l.delivered+l.dropped+l.under || l.sentBytes != l.deliveredBytes+l.droppedBytes+l.trimmedBytes+l.underBytes {
			return fmt.Errorf("flow %d: %+v does not add up", i, *l)
		}
	}
	return s.checkBuffers()
}

// checkPort compares the queues of a port with their lists, and shows each packet.
func (s *Sim) checkPort(pi uint32, see func(uint32)) error {
	p := &s.ports[pi]
	sum := int64(0)
	for c := range uint8(Classes) {
		f := s.queue(pi, p, c)
		bytes := int64(0)
		if p.occupied>>c&1 != 0 {
			for i := f.head; ; i = s.pk[i].next {
				bytes += int64(s.pk[i].size)
				see(i)
				if i == f.tail {
					break
				}
			}
		}
		if bytes != f.bytes {
			return fmt.Errorf("port %d, class %d: %d bytes in the queue, %d counted", pi, c, bytes, f.bytes)
		}
		sum += bytes
	}
	if sum != p.egress {
		return fmt.Errorf("port %d: %d bytes in its queues, %d counted", pi, sum, p.egress)
	}
	return nil
}

// checkBuffers compares the memory of each switch with what waits in its queues.
func (s *Sim) checkBuffers() error {
	if s.accounts == nil {
		return nil
	}
	for n := range s.nodes {
		nd := &s.nodes[n]
		if nd.sw == none || s.buffers[nd.sw].deep {
			continue
		}
		b := &s.buffers[nd.sw]
		var accounted, shared, queued int64
		for pi := nd.firstPort; pi < nd.firstPort+uint32(nd.ports); pi++ {
			a := &s.accounts[pi]
			for c := range uint8(Classes) {
				u := s.used[c][pi]
				accounted += u + a.over[c]
				shared += max(0, u-int64(s.cfg.Buffer.Reserve))
				if u < 0 || a.over[c] < 0 || a.over[c] > a.headroom {
					return fmt.Errorf("switch %s: class %d of port %d has %d bytes, %d of %d headroom", s.name(uint32(n)), c, pi-nd.firstPort, u, a.over[c], a.headroom)
				}
			}
			s.eachQueued(pi, func(i uint32) {
				if s.pk[i].in != noPort {
					queued += int64(s.pk[i].size)
				}
			})
		}
		if accounted != queued || shared != b.used || b.used > b.size {
			return fmt.Errorf("switch %s: %d bytes accounted for, %d queued; %d shared by ports, %d of %d counted", s.name(uint32(n)), accounted, queued, shared, b.used, b.size)
		}
	}
	return nil
}

func (s *Sim) eachQueued(pi uint32, f func(i uint32)) {
	p := &s.ports[pi]
	for c := range uint8(Classes) {
		if p.occupied>>c&1 == 0 {
			continue
		}
		q := s.queue(pi, p, c)
		for i := q.head; ; i = s.pk[i].next {
			f(i)
			if i == q.tail {
				break
			}
		}
	}
}
