// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"encoding/binary"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// maxPayload is the largest path MTU.
const maxPayload = roce.MaxPacket - roce.UCWriteImmOverhead

// responder checks packets and executes them: the responder side of IBTA chapter 9, for the two
// operations there are.
type responder struct {
	r      *receiver
	packet roce.Packet
	tos    uint8 // of the IP header
	// left is how many names of the packet of before, headers that came back, are still to be reported.
	left int
	// next is where the next payload goes if it continues the last one: memory that no cache has, as a rule, and that
	// is fetched while the ICRC is computed. Only within one call of Poll, as it may be revoked after it.
	next []byte

	// The fields below count what has happened since publish was called last.
	packets, bytes, trains uint64

	// names are the writes of a header-only packet that are sent back.
	names [roce.MostTrimmed]roce.UCWriteImm
}

// publish ends a call of Poll: it makes the counts visible to Stats.
func (h *responder) publish() {
	h.next = nil
	if h.packets != 0 || h.trains != 0 {
		h.r.traffic.add(h.packets, h.bytes, h.trains)
		h.packets, h.bytes, h.trains = 0, 0, 0
	}
}

// handle executes the packet of n bytes at at in the receive buffer, and reports whether it has made a
// completion. While left isn't 0 it must be called again for the same packet.
func (h *responder) handle(at, n int, c *backend.Completion) bool {
	b := h.r.batch.buf[at : at+n : at+n]
	if h.left > 0 {
		return h.nextName(b, c)
	}
	h.packets++
	reason, ok := h.execute(b, c)
	if !ok {
		if reason != noDrop {
			h.r.drops[reason].Add(1)
		}
		return false
	}
	switch c.Kind {
	case backend.KindTrimmed:
		return true // its length is that of a payload which isn't there
	case backend.KindDatagram:
		c.WRID = uint64(at) + roce.UDSendHeaders
	}
	h.bytes += uint64(c.Len)
	return true
}

// execute checks everything before it writes anything. The ICRC comes first, so that a corrupted packet
// is counted as that whatever field was hit. ok says that c is a completion; without one, reason is why b
// was dropped, or noDrop.
func (h *responder) execute(b []byte, c *backend.Completion) (reason backend.DropReason, ok bool) {
	if len(b) < roce.MinPacket {
		return backend.DropMalformed, false
	}
	if h.r.d.trimmedTOS(h.tos) {
		if w, err := roce.ParseTrimmed(b); err == nil && !w.Returned {
			return h.trimmed(b, &w, c)
		}
	}
	end := len(b) - roce.ICRCSize
	sum := h.r.flows.current.seedFor(len(b)).SumFetch(b[:end], h.next)
	if diff := sum ^ binary.LittleEndian.Uint32(b[end:]); diff != 0 && !h.r.acceptICRC(b, diff) {
		return backend.DropICRC, false
	}
	p := &h.packet
	if !h.parseWrite(b) {
		if w, err := roce.ParseTrimmed(b); err == nil && w.Returned && h.r.d.cfg.Trim {
			return h.trimmed(b, &w, c)
		}
		if err := p.Parse(b); err != nil {
			if err == roce.ErrOpcode {
				return backend.DropOpcode, false
			}
			return backend.DropMalformed, false
		}
	}
	q := h.r.d.qps.lookup(uint32(p.DestQP))
	if q == nil {
		return backend.DropUnknownQP, false
	}
	if !p.PKey.Matches(roce.DefaultPKey) {
		return backend.DropPKey, false
	}
	c.Cookie, c.Status, c.Flags = q.cookie, backend.StatusOK, 0
	switch {
	case p.Opcode == roce.UCWriteOnlyImm && q.typ == backend.UC:
		return h.write(q, c)
	case p.Opcode == roce.UDSendOnly && q.typ == backend.UD:
		return h.datagram(q, c)
	case p.Opcode == roce.CNPOpcode:
		return h.notified(q, c)
	}
	return backend.DropOpcode, false
}

// parseWrite is Packet.Parse for a well-formed RDMA WRITE Only with Immediate, the packet that nearly
// all are: it sets no more than the fields that write reads. It reports false for all others, among them headers that
// come back with names, which may be just as long as the write that they tell of.
func (h *responder) parseWrite(b []byte) bool {
	if len(b) < roce.UCWriteImmOverhead || len(b)%4 != 0 {
		return false
	}
	bth := roce.BTH(b[:roce.BTHSize])
	if bth.Opcode() != roce.UCWriteOnlyImm || bth.TVer() != 0 || bth.BECN() && bth.More() != 0 {
		return false
	}
	reth := roce.RETH(b[roce.BTHSize : roce.BTHSize+roce.RETHSize])
	n := len(b) - roce.UCWriteImmOverhead - bth.PadCount()
	if n < 0 || n > maxPayload || reth.DMALength() != uint32(n) {
		return false
	}
	p := &h.packet
	p.Opcode, p.PKey, p.DestQP = roce.UCWriteOnlyImm, bth.PKey(), bth.DestQP()
	p.VA, p.RKey = reth.VA(), reth.RKey()
	p.Imm = roce.ImmDt(b[roce.BTHSize+roce.RETHSize : roce.UCWriteImmHeaders]).Value()
	p.Payload = b[roce.UCWriteImmHeaders : roce.UCWriteImmHeaders+n]
	return true
}

// write executes an RDMA WRITE Only with Immediate. Any PSN is right: an Only packet starts a message,
// and an unreliable responder takes its PSN from there (IBTA 9.8.3.1).
func (h *responder) write(q *queuePair, c *backend.Completion) (backend.DropReason, bool) {
	p := &h.packet
	peer := q.peer.Load()
	switch {
	case peer == nil:
		return backend.DropUnknownQP, false // the queue pair isn't ready to receive
	case peer.ip != h.r.flows.current.from.ip && !h.r.d.cfg.AllowAnySource:
		return backend.DropSource, false
	case len(p.Payload) > int(q.mtu):
		return backend.DropMalformed, false
	case q.table == nil || p.RKey != q.table.rkey:
		return backend.DropKey, false
	}
	e := q.table.lookup(p.VA)
	if e == nil {
		return backend.DropLate, false
	}
	// A packet without payload carries only its immediate, and may name any address of its message.
	if n := uint64(len(p.Payload)); n != 0 {
		offset := p.VA & q.table.vaMask
		if offset+n > uint64(len(e.mem)) {
			return backend.DropBounds, false
		}
		place(e.mem[offset:offset+n], p.Payload)
		h.next = e.mem[offset+n : min(offset+2*n, uint64(len(e.mem)))]
	}
	c.WRID, c.Imm, c.Len, c.Kind = 0, p.Imm, uint32(len(p.Payload)), backend.KindWrite
	if h.tos&ecnMask == ecnCE {
		h.mark(q, peer, c)
	}
	return noDrop, true
}

// datagram executes a UD SEND Only. Its payload stays where it is until the next Poll.
func (h *responder) datagram(q *queuePair, c *backend.Completion) (backend.DropReason, bool) {
	p := &h.packet
	switch {
	case uint32(p.QKey) != backend.DatagramQKey:
		return backend.DropQKey, false
	case len(p.Payload) > int(q.mtu):
		return backend.DropMalformed, false
	}
	c.Imm, c.Len, c.Kind = 0, uint32(len(p.Payload)), backend.KindDatagram
	return noDrop, true
}

// acceptICRC decides about a packet whose ICRC is wrong for the address it came from and identification
// 0; diff is by how much. A peer that it claims to be from may excuse that: the one of its destination, or for a
// datagram each that its source queue pair number stands for, since other hosts give the same numbers.
func (r *receiver) acceptICRC(b []byte, diff uint32) bool {
	q := r.d.qps.lookup(uint32(roce.BTH(b).DestQP()))
	switch {
	case q == nil:
		return false
	case q.typ == backend.UC:
		p := q.peer.Load()
		return p != nil && r.excuses(p, b, diff)
	case len(b) < roce.UDSendOverhead:
		return false
	}
	src := uint32(roce.DETH(b[roce.BTHSize:]).SrcQP())
	for p := r.d.source(r.flows.current.from.ip, src).Load(); p != nil; p = p.next.Load() {
		if p.qpn == src && r.excuses(p, b, diff) {
			return true
		}
	}
	return false
}

// excuses reports whether a wrong ICRC is right for the peer p. Two kinds of peers are excused: one that is not userroce, for the
// identification, and with AllowAnySource one behind an address translator.
func (r *receiver) excuses(p *peer, b []byte, diff uint32) bool {
	from := &r.flows.current.from
	translated := p.ip != from.ip
	if translated {
		if !r.d.cfg.AllowAnySource {
			return false
		}
		f, err := roce.NewFlow(netip.AddrPortFrom(p.addr, from.port), r.d.Addr())
		if err != nil {
			return false
		}
		end := len(b) - roce.ICRCSize
		diff = f.Seed(len(b)).Sum(b[:end]) ^ binary.LittleEndian.Uint32(b[end:])
	}
	if diff != 0 {
		if !p.foreign || r.d.ipv6 {
			return false
		}
		if _, ok := roce.SolveIPv4ID(len(b), diff); !ok {
			return false
		}
		r.d.wire.solved.Add(1)
	}
	if translated {
		r.d.wire.translated.Add(1)
	}
	return true
}
