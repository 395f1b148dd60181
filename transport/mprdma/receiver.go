// SPDX-License-Identifier: Apache-2.0

package mprdma

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// receiver is the receiving end of one message.
type receiver struct {
	total, bitmap uint32
	expected      uint32
	have          bitring.Ring // of [expected, expected+bitmap)
}

func newReceiver(c *Config, m *transport.Message) *receiver {
	return &receiver{total: m.Packets(), bitmap: uint32(c.Bitmap), have: bitring.New(uint32(c.Bitmap))}
}

// OnPacket answers each data packet on the path that it took. A trimmed one tells nothing but that it is missing.
func (r *receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total || p.Flags&transport.Trimmed != 0 {
		return
	}
	kind := transport.Ack
	switch {
	case p.PSN < r.expected:
	case p.PSN-r.expected >= r.bitmap:
		kind = transport.Nak // no memory for it
	case p.PSN > r.expected:
		r.have.Set(p.PSN)
	default:
		r.expected++
		r.expected += r.have.TakeOnes(r.expected)
	}
	a := out.Add()
	*a = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: r.expected, Entropy: p.Entropy, Kind: kind}
	if p.Flags&transport.CE != 0 {
		a.Flags |= transport.Echo
	}
}

// Complete reports whether all of the message has arrived.
func (r *receiver) Complete() bool { return r.expected == r.total }
