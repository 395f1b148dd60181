// SPDX-License-Identifier: Apache-2.0

package uet

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/selective"
	"github.com/sdr-rdma/go-sdr/units"
)

// asks, in Packet.Expected of data, asks for an acknowledgement.
const asks = 1

// receiver is the receiving end of one message.
type receiver struct {
	total    uint32
	got      selective.Received
	unacked  units.Bytes
	ackBytes units.Bytes
	asked    bool // for an acknowledgement of all before
}

func newReceiver(c *Config, m *transport.Message) *receiver {
	return &receiver{total: m.Packets(), got: selective.MakeReceived(c.span(m)), ackBytes: c.AckBytes}
}

// OnPacket answers data, whole or trimmed.
func (r *receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total || !r.got.Spans(p.PSN) {
		return
	}
	marked := p.Flags&transport.CE != 0
	known := r.got.Has(p.PSN)
	switch {
	case p.Flags&transport.Trimmed != 0 && !known:
		n := out.Add()
		n.Kind, n.Sent, n.PSN, n.Expected, n.Entropy = transport.Nak, p.Sent, p.PSN, r.got.Expected, p.Entropy
		if marked {
			n.Flags |= transport.Echo
		}
		return
	case known:
		r.answer(p, r.base(p.PSN, marked), out)
		return
	}
	now := marked || r.got.Bytes == 0
	if p.Expected == asks {
		now, r.asked = true, true
	}
	r.got.Take(p.PSN, p.Payload)
	r.unacked += units.Bytes(p.Payload)
	if r.got.Beyond == 0 && r.asked {
		now, r.asked = true, false
	}
	if now || r.unacked >= r.ackBytes || r.Complete() {
		r.answer(p, r.base(p.PSN, marked || p.Expected == asks), out)
	}
}

// base is a packet of the segment that the bitmap is about: the one that arrived, or one of those up to it.
func (r *receiver) base(psn uint32, from bool) uint32 {
	if !from && psn >= 63 {
		psn -= 63
	}
	return max(psn, r.got.Expected)
}

func (r *receiver) answer(p *transport.Packet, base uint32, out *transport.Replies) {
	r.got.Answer(p, base, out)
	r.unacked = 0
}

// Complete reports whether all of the message has arrived.
func (r *receiver) Complete() bool { return r.got.Expected == r.total }
