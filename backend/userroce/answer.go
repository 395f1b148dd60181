// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// maxAnswer is the length of the longest packet that a device sends by itself: the headers of as
// many writes as one packet can name.
const maxAnswer = roce.ReturnedSize + (roce.MostTrimmed-1)*roce.NameSize

// answer is what sending one packet needs that nobody has posted: a CNP, or headers that go back.
type answer struct {
	msg    [1]mmsghdr
	iov    iovec
	ctl    cmsgSpace
	packet [maxAnswer]byte
	wire   [1]backend.WirePacket
}

// answerFor returns the memory for an answer of q, or nil when q sends none any more. s.mu is held.
func (s *sender) answerFor(q *queuePair) *answer {
	if q.closed || s.closed {
		return nil
	}
	if s.answer == nil {
		s.answer = new(answer)
	}
	return s.answer
}

// sendAnswer sends b, the beginning of x.packet, which lacks only its ICRC, to p, and reports whether the kernel took
// it. s.mu is held.
func (s *sender) sendAnswer(x *answer, p *peer, b []byte, tos int32) bool {
	p.flow.Seed(len(b)).Seal(b)
	if s.d.cfg.Wire != nil {
		x.wire[0] = backend.WirePacket{Src: netip.AddrPortFrom(s.d.addr, s.port), Dst: p.to(), TOS: uint8(max(tos, 0)), Data: b}
		s.d.cfg.Wire.Outbound(x.wire[:])
		if b = x.wire[0].Data; len(b) == 0 {
			return true // the kernel took it, and it counts as lost in the network
		}
	}
	x.iov = iovec{addressOf(x.packet[:]), uint64(min(len(b), len(x.packet)))}
	x.msg[0].hdr = msghdr{
		name: uintptr(unsafe.Pointer(&p.name)), namelen: p.nameLen, iov: uintptr(unsafe.Pointer(&x.iov)), iovlen: 1,
	}
	if tos != noTOS {
		x.ctl.setTOS(tos, s.d.ipv6)
		x.msg[0].hdr.control, x.msg[0].hdr.controllen = uintptr(unsafe.Pointer(&x.ctl)), uint64(unsafe.Sizeof(x.ctl))
	}
	switch _, errno := s.send(x.msg[:]); errno {
	case 0:
		s.traffic.add(1, 0, 0)
		return true
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
		s.drops[backend.DropQueueFull].Add(1)
	default:
		s.lose(messageInfo{packets: 1}, errno)
	}
	return false
}
