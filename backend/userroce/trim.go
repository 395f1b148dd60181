// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// Trimming (DCP, SIGCOMM 2025): a switch whose queue is full cuts a write to its headers, which hardly take any room, instead
// of dropping it. The receiver of such a header-only packet sends it back to the sender of the write, which so learns
// within a round trip exactly what is missing. Nothing is placed and nothing completes at the receiver.

// The tag is in the two low bits of the DSCP (DCP, section 4.2), where they are in the TOS.
const (
	tagMask = 3 << 2
	tagData = 2 << 2 // may be cut
	tagHO   = 3 << 2 // header-only: has been cut, or goes back
)

// trimmedTOS reports whether a packet's TOS is that of what a switch has cut.
func (d *Device) trimmedTOS(tos uint8) bool {
	if d.cfg.TrimDSCP != 0 {
		return tos>>2 == d.cfg.TrimDSCP
	}
	return d.cfg.Trim && tos&tagMask == tagHO
}

// headerTOS is the TOS of headers that go back: switches put them in the queue of what they have cut.
func (d *Device) headerTOS() int32 {
	if d.cfg.TrimDSCP != 0 {
		return int32(d.cfg.TrimDSCP) << 2
	}
	return int32(d.cfg.DSCP)<<2 | tagHO
}

// trimCounters are those of backend.TrimStats.
type trimCounters struct {
	seen, sentBack, reported atomic.Uint64
}

func (t *trimCounters) addTo(s *backend.TrimStats) {
	s.Seen += t.seen.Load()
	s.SentBack += t.sentBack.Load()
	s.Reported += t.reported.Load()
}

// trimmed executes a header-only packet. A switch has cut the ICRC off with the payload, so all that stands against a
// header that was damaged or forged is what it must match: addresses, queue pair, key, and a message that is
// open, within its bounds. A forged header that gets through nevertheless costs one packet, which goes to
// the connected peer and never to where the header came from, and one repeat by that peer.
func (h *responder) trimmed(w *roce.UCWriteImm, c *backend.Completion) (backend.DropReason, bool) {
	q := h.r.d.qps.lookup(uint32(w.DestQP))
	if q == nil {
		return backend.DropUnknownQP, false
	}
	p := q.peer.Load()
	switch {
	case !w.PKey.Matches(roce.DefaultPKey):
		return backend.DropPKey, false
	case q.typ != backend.UC:
		return backend.DropOpcode, false
	case p == nil:
		return backend.DropUnknownQP, false
	case p.ip != h.r.flows.current.from.ip && !h.r.d.cfg.AllowAnySource:
		return backend.DropSource, false
	case !p.trims:
		return backend.DropOpcode, false
	case w.Length > q.mtu:
		return backend.DropMalformed, false
	case w.Returned:
		return h.cameBack(q, w, c)
	case q.table == nil || w.RKey != q.table.rkey:
		return backend.DropKey, false
	}
	t := q.table
	e := t.slots[w.VA>>t.shift&t.slotMask].live.Load()
	if e == nil || e.base != w.VA&^t.vaMask {
		return backend.DropLate, false // nobody waits for the message any more
	}
	if w.VA&t.vaMask+uint64(w.Length) > uint64(len(e.mem)) {
		return backend.DropBounds, false
	}
	h.r.trim.seen.Add(1)
	if q.sendBack(p, w) {
		h.r.trim.sentBack.Add(1)
	}
	return noDrop, false
}

// cameBack reports headers that the peer has sent back.
func (h *responder) cameBack(q *queuePair, w *roce.UCWriteImm, c *backend.Completion) (backend.DropReason, bool) {
	h.r.trim.reported.Add(1)
	*c = backend.Completion{WRID: w.VA, Cookie: q.cookie, Imm: w.Imm, Len: w.Length, Kind: backend.KindTrimmed}
	return 0, true
}

// sendBack returns the headers of a write to its sender, and reports whether the kernel took them.
func (q *queuePair) sendBack(p *peer, w *roce.UCWriteImm) bool {
	s := q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.answerFor(q)
	if x == nil {
		return false
	}
	back := *w
	back.DestQP, back.Returned = roce.QPN(p.qpn), true
	back.Encode(x.packet[:])
	return s.sendAnswer(x, p, x.packet[:], s.d.headerTOS())
}
