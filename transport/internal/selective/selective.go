// SPDX-License-Identifier: Apache-2.0

// Package selective is the two ends of a selective acknowledgement (transport.Selective), as STrack and, after it, Ultra Ethernet
// have it: what a receiver keeps and tells, and what a sender takes of that.
package selective

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// Received is what a receiver has of a message. Packets that it is asked about lie before the end of its span.
type Received struct {
	Expected uint32      // the first packet that has not arrived
	Beyond   uint32      // how many behind it have
	Bytes    units.Bytes // payload, without duplicates
	span     uint32
	have     bitring.Ring // of [Expected, Expected+span)
}

// Ring makes the bitmap of span packets, a multiple of 64, which may begin within a word.
func Ring(span uint32) bitring.Ring { return bitring.New(span + 64) }

// MakeReceived begins with nothing.
func MakeReceived(span uint32) Received { return Received{span: span, have: Ring(span)} }

// Spans reports whether there is room for packet psn.
func (r *Received) Spans(psn uint32) bool { return psn < r.Expected || psn-r.Expected < r.span }

// Has reports whether packet psn has arrived.
func (r *Received) Has(psn uint32) bool { return psn < r.Expected || r.have.Has(psn) }

// Take places a packet; false: it is a duplicate.
func (r *Received) Take(psn uint32, payload uint16) bool {
	switch {
	case psn < r.Expected:
		return false
	case psn > r.Expected:
		if !r.have.Set(psn) {
			return false
		}
		r.Beyond++
	default:
		r.Expected++
		for r.Beyond > 0 && r.have.Has(r.Expected) {
			r.have.Clear(r.Expected)
			r.Expected++
			r.Beyond--
		}
	}
	r.Bytes += units.Bytes(payload)
	return true
}

// Complete has all packets before end, with so much payload, however many of them came.
func (r *Received) Complete(end uint32, payload units.Bytes) {
	r.have.TakeAll(r.Expected, end)
	r.Expected, r.Beyond, r.Bytes = end, 0, payload
}

// Answer acknowledges p with the segment of 64 packets that packet psn is in.
func (r *Received) Answer(p *transport.Packet, psn uint32, out *transport.Replies) {
	a := out.AddSack()
	a.Sent, a.PSN, a.Expected, a.Entropy = p.Sent, p.PSN, r.Expected, p.Entropy
	if p.Flags&transport.CE != 0 {
		a.Flags |= transport.Echo
	}
	s := a.Sack
	s.Base, s.Beyond, s.Received, s.Probe = psn&^63, r.Beyond, r.Bytes, p.Kind == transport.Probe
	if s.Base+64 > r.Expected && s.Base < r.Expected+r.span {
		s.Bitmap = *r.have.Word(s.Base)
	}
}

// Warm reads what the next packet needs: see transport.Warmer.
func (r *Received) Warm() uint32 { return r.Expected + uint32(*r.have.Word(r.Expected)) }

// Plausible reports whether an honest receiver can have sent the acknowledgement p to one that has sent the packets before next, of total,
// over so many paths. Those before p.Expected have least payload, those before next have most.
func Plausible(p *transport.Packet, next, total uint32, least, most units.Bytes, paths int) bool {
	a := p.Sack
	if a == nil || p.Expected > next || a.Beyond > next-p.Expected || a.Received < least || a.Received > most ||
		int(p.Entropy) >= paths || a.Base&63 != 0 || a.Base >= total+64 {
		return false
	}
	return a.Bitmap == 0 || a.Base+uint32(63-bits.LeadingZeros64(a.Bitmap)) < next
}

// From has the bits of a for packets from psn on.
func From(a *transport.Selective, psn uint32) uint64 {
	switch {
	case a.Base+64 <= psn:
		return 0
	case a.Base < psn:
		return a.Bitmap &^ (1<<(psn-a.Base) - 1)
	}
	return a.Bitmap
}
