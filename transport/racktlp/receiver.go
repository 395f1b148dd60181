// SPDX-License-Identifier: Apache-2.0

package racktlp

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// receiver is the receiving end of one message.
type receiver struct {
	total, span uint32
	expected    uint32
	have        bitring.Ring // of [expected, expected+span)
}

func newReceiver(c *Config, m *transport.Message) *receiver {
	span := c.span(m)
	return &receiver{total: m.Packets(), span: span, have: bitring.New(span)}
}

// OnPacket answers each data packet. A trimmed one tells nothing but that it is missing.
func (r *receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total || p.Flags&transport.Trimmed != 0 {
		return
	}
	switch {
	case p.PSN < r.expected:
	case p.PSN-r.expected >= r.span:
		return // of a sender with another span: it will come again
	case p.PSN > r.expected:
		r.have.Set(p.PSN)
	default:
		r.expected++
		r.expected += r.have.TakeOnes(r.expected)
	}
	*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: r.expected, Entropy: p.Entropy, Kind: transport.Ack}
}

// Complete reports whether all of the message has arrived.
func (r *receiver) Complete() bool { return r.expected == r.total }
