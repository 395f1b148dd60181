// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
)

// lookAhead is how many packets are read together: about as many as a core has reads of memory under
// way at a time.
const lookAhead = 16

// look reads what the events that come next need: packets, ports, and the ends of flows. The reads of one stage don't depend on each
// other, so they come from memory together, where events would wait for one after the other. It changes nothing but
// packet.next of those on the wire, which is forward's, and s.seen, which only keeps the compiler from leaving the reads out.
func (s *Sim) look() {
	next := s.q.Upcoming()
	if len(next) > lookAhead {
		next = next[:lookAhead]
	}
	s.ahead = len(next)
	s.seen += s.lookAtPackets(next) + s.lookBeyond(next)
}

// lookAtPackets reads those that arrive, and those that leave a queue.
func (s *Sim) lookAtPackets(next []des.Event) (seen uint32) {
	for i := range next {
		e := &next[i]
		switch pi := e.Key & entity; e.Key &^ entity {
		case evArrive:
			seen += s.pk[e.Arg].flow
		case evDequeue:
			p := &s.ports[pi]
			if c := bits.TrailingZeros8(p.occupied); c < nearClasses {
				seen += s.pk[p.queues[c].head].flow
			}
		}
	}
	return seen
}

// lookBeyond reads the ports through which packets will leave a switch, and the ends of flows at hosts.
func (s *Sim) lookBeyond(next []des.Event) (seen uint32) {
	var ends [lookAhead]struct {
		flow   uint32
		sender bool
	}
	n := 0
	for i := range next {
		e := &next[i]
		switch pi := e.Key & entity; e.Key &^ entity {
		case evArrive:
			k, w := &s.pk[e.Arg], s.wires[pi]
			switch {
			case k.kind == pause:
			case s.nodes[w.node].sw == none:
				if k.what() == transport.Sack {
					seen += s.sacks[k.psn].Base
				}
				ends[n].flow, ends[n].sender = k.flow, k.what().ToSender()
				n++
			case s.early && k.next == nilPort:
				if k.next = s.route(w.node, e.Arg); k.next != nilPort {
					seen += s.ports[k.next].owner
				}
			}
		case evDequeue:
			if s.ports[pi].flags&ofHost != 0 {
				if last := s.nicAt(pi).ring[DataClass]; last != nilFlow {
					ends[n].flow, ends[n].sender = s.flows[last].next, true
					n++
				}
			}
		}
	}
	for i := range ends[:n] {
		f := &s.flows[ends[i].flow]
		if ends[i].sender {
			seen += lookAtSender(f.snd)
		} else {
			seen += lookAtReceiver(f.rcv)
		}
	}
	return seen
}

func lookAtSender(snd transport.Sender) uint32 {
	if w, ok := snd.(transport.Warmer); ok {
		return w.Warm()
	}
	if snd != nil && snd.Done() {
		return 1
	}
	return 0
}

func lookAtReceiver(rcv transport.Receiver) uint32 {
	if w, ok := rcv.(transport.Warmer); ok {
		return w.Warm()
	}
	if rcv != nil && rcv.Complete() {
		return 1
	}
	return 0
}
