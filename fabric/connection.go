// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A connection carries the messages of one queue pair between two hosts, one behind the other in the order in which they start. Its packets
// are those of the flow that was its first message, the carrier, whose ends and path all have.
type connection struct {
	carrier uint32
	arrived int // of posted, how many have been received
	snd     transport.Poster
	rcv     transport.Taker
	posted  []posted         // not acknowledged, in order
	counts  transport.Counts // of messages that are done
}

// posted is a message that has started, and the number behind its last packet.
type posted struct{ flow, end uint32 }

// connKey is what messages of a connection have in common.
type connKey struct {
	src, dst uint32
	conn     uint16
	class    uint8
}

// keepsConnections reports whether the transport has ends that carry several messages.
func (s *Sim) keepsConnections() bool {
	snd, rcv := s.cfg.Transport(transport.Message{Size: 1, MTU: s.cfg.MTU, LineRate: s.slowestHost(), BaseRTT: units.Microsecond, Hops: 1, Open: true})
	_, posts := snd.(transport.Poster)
	_, takes := rcv.(transport.Taker)
	return posts && takes
}

// connect returns the connection of a message that is being added, plus one, and its carrier: that message if it is the first.
func (s *Sim) connect(w *workload.Flow, class uint8) (conn, carrier uint32) {
	key := connKey{uint32(w.Src), uint32(w.Dst), w.Conn, class}
	if s.connOf == nil {
		s.connOf = make(map[connKey]uint32)
	}
	conn, ok := s.connOf[key]
	if !ok {
		s.conns = append(s.conns, connection{carrier: uint32(len(s.ends))})
		conn = uint32(len(s.conns))
		s.connOf[key] = conn
	}
	return conn, s.conns[conn-1].carrier
}

// post starts a message behind those that the connection has.
func (s *Sim) post(fi uint32, c *connection) {
	f := &s.flows[c.carrier]
	if c.snd == nil {
		f.snd, f.rcv = s.cfg.Transport(s.message(c.carrier))
		c.snd, c.rcv = f.snd.(transport.Poster), f.rcv.(transport.Taker)
	}
	c.posted = append(c.posted, posted{fi, c.snd.Post(s.records[fi].size)})
	s.activate(c.carrier)
}

// taken completes the messages that have been received.
func (s *Sim) taken(c *connection) {
	for end := c.rcv.Taken(); c.arrived < len(c.posted) && c.posted[c.arrived].end <= end; c.arrived++ {
		s.complete(c.posted[c.arrived].flow)
	}
}

// acknowledged ends the messages that have been acknowledged. What was repeated meanwhile counts for the first of them.
func (s *Sim) acknowledged(c *connection) {
	done := 0
	for end := c.snd.Acked(); done < len(c.posted) && c.posted[done].end <= end; done++ {
		r := &s.records[c.posted[done].flow]
		r.done = s.now
		s.finished++
		if n, ok := c.snd.(transport.Counter); ok {
			all := n.Counts()
			r.counts = transport.Counts{Repeated: all.Repeated - c.counts.Repeated, Timeouts: all.Timeouts - c.counts.Timeouts}
			s.timeouts += uint64(r.counts.Timeouts)
			c.counts = all
		}
	}
	if done > 0 {
		c.posted = c.posted[:copy(c.posted, c.posted[done:])]
		c.arrived -= done
	}
}
