// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// An Outlet is what a network gives a device to send through.
type Outlet interface {
	// Post takes over a packet. The network calls Leave when it goes out.
	Post(s Send)
	// Abandon gives up what q has posted and has not left: the network releases those packets.
	Abandon(q *QP)
	// Room is when a post that met no room may succeed; netsim.Never when the network will call
	// QP.MadeRoom instead.
	Room() netsim.Time
}

// A Send is a work request that has been posted.
type Send struct {
	QP     *QP    // nil once the network has abandoned it
	Packet uint32 // what will go out
	region *region
	offset units.Bytes
	wrid   uint64
	signal bool
}

// Leave reads the payload from memory, as late as a NIC does, and reports the send as done. It returns
// false when there is nothing to carry, because the memory has been deregistered meanwhile: then it has
// released the packet.
func (s *Send) Leave() bool {
	w := s.QP.dev.world
	ok := s.fetch(w)
	s.QP.sent(s, ok)
	if !ok {
		w.Release(s.Packet)
		return false
	}
	s.QP.dev.countSent(s.Packet)
	return true
}

func (s *Send) fetch(w *World) bool {
	if s.region == nil {
		return true
	}
	if s.region.closed {
		return false
	}
	if s.region.mem != nil {
		p := &w.slab[s.Packet]
		p.Data = w.buffer(p.Length)
		copy(p.Data, s.region.mem[s.offset:])
	}
	return true
}

// Cut forgets the source of a send whose queue pair is closed.
func (s *Send) Cut() { s.QP, s.region = nil, nil }
