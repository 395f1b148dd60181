// SPDX-License-Identifier: Apache-2.0

package uet

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// asks, in Packet.Expected of data, asks for an acknowledgement.
const asks = 1

// receiver is the receiving end of one message.
type receiver struct {
	total, span uint32
	expected    uint32
	beyond      uint32       // packets received after expected
	have        bitring.Ring // of [expected, expected+span)
	received    units.Bytes
	unacked     units.Bytes
	ackBytes    units.Bytes
	asked       bool // for an acknowledgement of all before
}

func newReceiver(c *Config, m *transport.Message) *receiver {
	span := c.span(m)
	return &receiver{total: m.Packets(), span: span, have: bitring.New(span + 64), ackBytes: c.AckBytes}
}

// OnPacket answers data, whole or trimmed.
func (r *receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total || p.PSN >= r.expected && p.PSN-r.expected >= r.span {
		return
	}
	marked := p.Flags&transport.CE != 0
	known := p.PSN < r.expected || r.have.Has(p.PSN)
	switch {
	case p.Flags&transport.Trimmed != 0 && !known:
		n := out.Add()
		n.Kind, n.Sent, n.PSN, n.Expected, n.Entropy = transport.Nak, p.Sent, p.PSN, r.expected, p.Entropy
		if marked {
			n.Flags |= transport.Echo
		}
		return
	case known:
		r.answer(p, r.base(p.PSN, marked), out)
		return
	}
	now := marked || r.received == 0
	if p.Expected == asks {
		now, r.asked = true, true
	}
	r.received += units.Bytes(p.Payload)
	r.unacked += units.Bytes(p.Payload)
	r.take(p.PSN)
	if r.beyond == 0 && r.asked {
		now, r.asked = true, false
	}
	if now || r.unacked >= r.ackBytes || r.Complete() {
		r.answer(p, r.base(p.PSN, marked || p.Expected == asks), out)
	}
}

// take places a new packet.
func (r *receiver) take(psn uint32) {
	if psn > r.expected {
		r.have.Set(psn)
		r.beyond++
		return
	}
	r.expected++
	for r.beyond > 0 && r.have.Has(r.expected) {
		r.have.Clear(r.expected)
		r.expected++
		r.beyond--
	}
}

// base is the first packet that the bitmap is about: the one that arrived, or those up to it.
func (r *receiver) base(psn uint32, from bool) uint32 {
	if !from && psn >= 63 {
		psn -= 63
	}
	return max(psn, r.expected) &^ 63
}

func (r *receiver) answer(p *transport.Packet, base uint32, out *transport.Replies) {
	a := out.AddSack()
	a.Sent, a.PSN, a.Expected, a.Entropy = p.Sent, p.PSN, r.expected, p.Entropy
	if p.Flags&transport.CE != 0 {
		a.Flags |= transport.Echo
	}
	s := a.Sack
	s.Base, s.Beyond, s.Received = base, r.beyond, r.received
	if base < r.expected+r.span {
		s.Bitmap = *r.have.Word(base)
	}
	r.unacked = 0
}

// Complete reports whether all of the message has arrived.
func (r *receiver) Complete() bool { return r.expected == r.total }
