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
// the connected peer and never to where the header came from, and one repeat by that peer of each write that it names.
func (h *responder) trimmed(b []byte, w *roce.UCWriteImm, c *backend.Completion) (backend.DropReason, bool) {
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
	n, reason := h.wanted(q, b, w)
	if n == 0 {
		return reason, false
	}
	h.r.trim.seen.Add(uint64(n))
	if q.sendBack(p, h.names[:n]) {
		h.r.trim.sentBack.Add(uint64(n))
	}
	return noDrop, false
}

// wanted puts into names those writes of a header-only packet that somebody waits for, and returns how many they are; and
// what is wrong with the last of the others, which it counts, but for that one if there are no more.
func (h *responder) wanted(q *queuePair, b []byte, w *roce.UCWriteImm) (n int, reason backend.DropReason) {
	reason = noDrop
	for i := range 1 + int(w.More) {
		h.names[n] = *w
		if i > 0 {
			h.names[n] = w.Named(b, i-1)
		}
		switch r := q.table.waits(h.names[n].VA, w.Length); {
		case r == noDrop:
			n++
		case reason != noDrop:
			h.r.drops[reason].Add(1)
			fallthrough
		default:
			reason = r
		}
	}
	if n > 0 && reason != noDrop {
		h.r.drops[reason].Add(1)
	}
	return n, reason
}

// waits says why nobody waits for n bytes at va, or noDrop.
func (t *table) waits(va uint64, n uint32) backend.DropReason {
	e := t.lookup(va)
	if e == nil {
		return backend.DropLate
	}
	if va&t.vaMask+uint64(n) > uint64(len(e.mem)) {
		return backend.DropBounds
	}
	return noDrop
}

// cameBack reports headers that the peer has sent back: a write now, and one in each further call for the packet.
func (h *responder) cameBack(q *queuePair, w *roce.UCWriteImm, c *backend.Completion) (backend.DropReason, bool) {
	h.r.trim.reported.Add(1 + uint64(w.More))
	h.left = int(w.More)
	reportTrimmed(q, w, c)
	return noDrop, true
}

// nextName reports the next write of a packet that was checked before, unless its queue pair has gone meanwhile.
func (h *responder) nextName(b []byte, c *backend.Completion) bool {
	w, err := roce.ParseTrimmed(b)
	q := h.r.d.qps.lookup(uint32(w.DestQP))
	if err != nil || q == nil {
		h.left = 0
		return false
	}
	x := w.Named(b, int(w.More)-h.left)
	h.left--
	reportTrimmed(q, &x, c)
	return true
}

func reportTrimmed(q *queuePair, w *roce.UCWriteImm, c *backend.Completion) {
	*c = backend.Completion{WRID: w.VA, Cookie: q.cookie, Imm: w.Imm, Len: w.Length, Kind: backend.KindTrimmed}
}

// sendBack returns the headers of writes, in one packet, to their sender, and reports whether the kernel took them.
func (q *queuePair) sendBack(p *peer, names []roce.UCWriteImm) bool {
	s := q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.answerFor(q)
	if x == nil {
		return false
	}
	back := names[0]
	back.DestQP, back.Returned, back.More = roce.QPN(p.qpn), true, uint8(len(names)-1)
	back.Encode(x.packet[:])
	for i := range names[1:] {
		roce.PutName(x.packet[:], i, names[i+1].VA, names[i+1].Imm)
	}
	return s.sendAnswer(x, p, x.packet[:roce.ReturnedSize+(len(names)-1)*roce.NameSize], s.d.headerTOS())
}
