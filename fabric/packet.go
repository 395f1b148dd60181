// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/transport"
)

// packet is 32 bytes: what a hop touches decides the speed.
type packet struct {
	sent     des.Time // when it was sent, or for feedback when that which caused it was
	next     uint32   // in a queue, or in the free list
	flow     uint32
	psn      uint32 // of a selective acknowledgement: where in Sim.sacks the rest is
	expected uint32
	entropy  uint16
	size     uint16 // on the wire
	in       uint16 // port of the switch through which it came; noPort: none
	kind     uint8  // a transport.Kind, or pause; the class in the two highest bits
	flags    transport.Flags
}

const (
	nilPacket = ^uint32(0)
	noPort    = ^uint16(0)

	// pause is a PFC frame: psn is the class, expected 1 to pause and 0 to resume.
	pause      = 0x3f
	kindBits   = 0x3f
	classShift = 6
)

func (k *packet) what() transport.Kind { return transport.Kind(k.kind & kindBits) }

func (k *packet) class() uint8 { return k.kind >> classShift }

func (k *packet) setClass(c uint8) { k.kind = k.kind&kindBits | c<<classShift }

// alloc returns a packet with any content.
func (s *Sim) alloc() uint32 {
	if i := s.free; i != nilPacket {
		s.free = s.pk[i].next
		s.live++
		return i
	}
	s.pk = append(s.pk, packet{})
	if s.telemetry != nil {
		s.telemetry = append(s.telemetry, stack{})
	}
	s.live++
	return uint32(len(s.pk) - 1)
}

// putSack stores the rest of a selective acknowledgement.
func (s *Sim) putSack(a *transport.Selective) uint32 {
	if n := len(s.freeSack); n > 0 {
		i := s.freeSack[n-1]
		s.freeSack = s.freeSack[:n-1]
		s.sacks[i] = *a
		return i
	}
	s.sacks = append(s.sacks, *a)
	return uint32(len(s.sacks) - 1)
}

func (s *Sim) release(i uint32) {
	k := &s.pk[i]
	if k.what() == transport.Sack {
		s.freeSack = append(s.freeSack, k.psn)
	}
	k.next = s.free
	s.free = i
	s.live--
}
