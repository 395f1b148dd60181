// SPDX-License-Identifier: Apache-2.0

package fabricdev

import (
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// stream is the sending end of a fabric.Stream: what waits to be sent. It has no timer and is never done.
type stream struct {
	net     *Network
	number  int
	entropy uint16
	flags   transport.Flags
	qp      *virtual.QP // of writes; nil for datagrams
	queue   ring.Ring[virtual.Send]
}

// Transmit is called when the wire of the sender's NIC is free.
func (s *stream) Transmit(_ units.Instant, p *transport.Packet) bool {
	n := s.net
	n.world.Now = n.fabric.Now()
	for s.queue.Len() > 0 {
		x := s.queue.Pop()
		q := x.QP
		left := x.Leave()
		q.MadeRoom()
		if left {
			*p = n.send(x.Packet, transport.Data)
			p.Flags, p.Entropy = s.flags, s.entropy
			return true
		}
	}
	return false
}

// OnPacket handles what comes back to the sender: notifications, also those that a switch has made, and headers of what was
// trimmed.
func (s *stream) OnPacket(_ units.Instant, p *transport.Packet) {
	n := s.net
	n.world.Now = n.fabric.Now()
	if p.Kind != transport.CNP && p.Kind != transport.Returned {
		return
	}
	if i, ok := n.identify(p); ok {
		n.world.Receive(i)
	} else if s.qp != nil && p.Kind == transport.CNP {
		s.qp.Congested()
	}
}

// Pace returns 0: what has been posted may go.
func (s *stream) Pace(units.Instant) units.Rate { return 0 }

// OnTimer does nothing.
func (s *stream) OnTimer(units.Instant) {}

// Next returns units.Never.
func (s *stream) Next() units.Instant { return units.Never }

// Done reports false: there may always be more.
func (s *stream) Done() bool { return false }

// arrivals is the receiving end of all streams.
type arrivals struct{ net *Network }

// OnPacket hands a packet to the device that it is for. What that device answers is sent by itself.
func (a arrivals) OnPacket(_ units.Instant, p *transport.Packet, _ *transport.Replies) {
	n := a.net
	n.world.Now = n.fabric.Now()
	i, ok := n.identify(p)
	if !ok {
		return // made by a switch
	}
	k := n.world.Packet(i)
	k.Marked = k.Marked || p.Flags&transport.CE != 0
	cut := p.Flags&transport.Trimmed != 0
	k.Trimmed, k.Truncated = cut && n.trims, cut && !n.trims
	n.world.Receive(i)
}

// Complete reports false.
func (arrivals) Complete() bool { return false }
