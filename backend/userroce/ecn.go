// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// Explicit congestion notification: data packets are ECN-capable, a queue marks them instead of dropping
// them, the receiver answers (the notification point of DCQCN, SIGCOMM 2015), and the sender is notified
// (the reaction point) as backend.KindCongestion. Whoever controls the rate reacts.

// The two low bits of the IP header's TOS or traffic class (RFC 3168).
const (
	ecnMask = 3
	ecnECT0 = 2
	ecnCE   = 3
)

// controlDSCP is CS6, network control: what CNPs are sent with by default on NICs, and here also control
// datagrams. They are not ECN-capable.
const controlDSCP = 48

// cnpInterval is the least time between two CNPs for a queue pair, and between two that it heeds: 50 µs, as
// in DCQCN.
const cnpInterval = 50 * units.Microsecond

// noTOS leaves the TOS of a message to the socket.
const noTOS = -1

// dataTOS is the TOS of data to a peer: whether it is ECN-capable, and trimmable.
func (d *Device) dataTOS(ect, trims bool) int32 {
	tos := int32(d.cfg.DSCP) << 2
	if trims && d.cfg.TrimDSCP == 0 {
		tos |= tagData
	}
	switch {
	case ect:
		return tos | ecnECT0
	case tos == 0:
		return noTOS
	}
	return tos
}

// controlTOS is the TOS of datagrams and CNPs, but for datagrams to a peer that takes trimmed packets (OpenAddress).
func (d *Device) controlTOS() int32 {
	if d.cfg.ECN || d.cfg.DSCP != 0 || d.cfg.Trim {
		return controlDSCP << 2
	}
	return noTOS
}

// setTOS makes c the control message that gives a message its TOS.
func (c *cmsgSpace) setTOS(tos int32, ipv6 bool) {
	*c = cmsgSpace{len: cmsgLen32, level: unix.SOL_IP, typ: unix.IP_TOS, value: tos}
	if ipv6 {
		c.level, c.typ = unix.SOL_IPV6, unix.IPV6_TCLASS
	}
}

// tos returns the TOS of a received message if c is the control message that has it.
func (c *cmsgSpace) tos() (tos uint8, ok bool) {
	switch {
	case c.level == unix.SOL_IP && c.typ == unix.IP_TOS: // one byte
		return *(*uint8)(unsafe.Pointer(&c.value)), true
	case c.level == unix.SOL_IPV6 && c.typ == unix.IPV6_TCLASS:
		return uint8(c.value), true
	}
	return 0, false
}

// receiveTOS has the kernel report the TOS of each message, and so of each train: it puts together only packets
// that have the same.
func receiveTOS(fd int, ipv6 bool) (err error) {
	if ipv6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
	}
	if err != nil {
		return operr.New("open", "userroce", "receive the TOS: %w", err)
	}
	return nil
}

// ecnCounters count what mlx5 counts at the notification point and at the reaction point.
type ecnCounters struct {
	marked, sent, handled, ignored atomic.Uint64
}

func (e *ecnCounters) addTo(s *backend.CongestionStats) {
	s.NPMarked += e.marked.Load()
	s.NPCNPSent += e.sent.Load()
	s.RPCNPHandled += e.handled.Load()
	s.RPCNPIgnored += e.ignored.Load()
}

// A pace lets something happen at most once in cnpInterval. Any goroutine may ask.
type pace struct{ next atomic.Int64 }

func (p *pace) due(now units.Instant) bool {
	next := p.next.Load()
	return int64(now) >= next && p.next.CompareAndSwap(next, int64(now.Add(cnpInterval)))
}

// mark handles a write that a queue in the network has marked, which a device sees only where ECN is configured, or a Wire
// has done it.
func (h *responder) mark(q *queuePair, p *peer, c *backend.Completion) {
	c.Flags = backend.FlagECN
	h.r.ecn.marked.Add(1)
	if q.notify.due(h.r.now) && q.sendCNP(p) {
		h.r.ecn.sent.Add(1)
	}
}

// notified executes a CNP. Whoever can send from the peer's address and knows or guesses the queue pair number can
// forge one, since nothing in it is secret; so no queue pair heeds more than one in cnpInterval, and none that
// sends nothing ECN-capable heeds any.
func (h *responder) notified(q *queuePair, c *backend.Completion) (backend.DropReason, bool) {
	peer := q.peer.Load()
	switch {
	case q.typ != backend.UC || !h.r.d.cfg.ECN:
		return backend.DropOpcode, false
	case peer == nil:
		return backend.DropUnknownQP, false
	case peer.ip != h.r.flows.current.from.ip && !h.r.d.cfg.AllowAnySource:
		return backend.DropSource, false
	case !h.packet.BECN || !peer.ect || !q.react.due(h.r.now):
		h.r.ecn.ignored.Add(1)
		return noDrop, false
	}
	h.r.ecn.handled.Add(1)
	c.WRID, c.Imm, c.Len, c.Kind = 0, 0, 0, backend.KindCongestion
	return noDrop, true
}

// sendCNP notifies q's peer that a packet of it was marked, and reports whether the kernel accepted the notification.
func (q *queuePair) sendCNP(p *peer) bool {
	s := q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.answerFor(q)
	if x == nil {
		return false
	}
	b := x.packet[:roce.CNPPacketSize]
	roce.CNP(b).Set(roce.QPN(p.qpn), roce.DefaultPKey)
	return s.sendAnswer(x, p, b, s.d.controlTOS())
}
