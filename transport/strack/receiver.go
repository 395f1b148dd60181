// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"math"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Receiver is the receiving end of one message (section 3.3.1).
type Receiver struct {
	msg      coded
	total    uint32
	span     uint32
	expected uint32
	beyond   uint32       // packets received after expected
	lowest   uint32       // of those since the last acknowledgement (LPSN)
	have     bitring.Ring // of [expected, expected+span)
	received units.Bytes
	unacked  units.Bytes
	ackBytes units.Bytes
	end      uint32 // of a connection: behind the latest packet that is known to end a message
	prompt   Prompt
}

func newReceiver(c *Config, m *transport.Message, parity uint32) *Receiver {
	span := c.span(m)
	msg := codedOf(*m, parity)
	if m.Open {
		msg.data, msg.total = math.MaxUint32, math.MaxUint32
	}
	return &Receiver{msg: msg, total: msg.total, span: span, lowest: math.MaxUint32, have: bitmap(span), ackBytes: c.ackBytes(m.MTU), prompt: c.Prompt}
}

// OnPacket answers data and probes. A trimmed packet tells nothing but that it is missing.
func (r *Receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	switch {
	case p.Kind == transport.Probe:
		r.answer(p, p.PSN, out)
		return
	case p.Kind != transport.Data || p.PSN >= r.total || p.Flags&transport.Trimmed != 0:
		return
	case p.PSN >= r.expected && p.PSN-r.expected >= r.span:
		return // of a sender that keeps track of more: it will come again
	}
	before := r.expected
	now := r.take(p)
	if p.Flags&transport.Last != 0 {
		r.end = max(r.end, p.PSN+1)
	}
	if r.expected < r.total && r.expected+r.beyond >= r.msg.data && r.total > r.msg.data {
		r.decode()
	}
	r.lowest = min(r.lowest, p.PSN)
	r.unacked += units.Bytes(p.Payload)
	whole := before < r.end && r.expected >= r.end
	now = now || r.prompt == PromptMarked && p.Flags&transport.CE != 0
	if now || whole || r.unacked >= r.ackBytes || r.Complete() {
		r.answer(p, max(r.expected, r.lowest), out)
	}
}

// take places a packet and reports whether it must be answered at once: a duplicate, or one that closes a
// gap.
func (r *Receiver) take(p *transport.Packet) (now bool) {
	switch {
	case p.PSN < r.expected:
		return true
	case p.PSN > r.expected:
		if !r.have.Set(p.PSN) {
			return true
		}
		r.beyond++
		r.received += units.Bytes(p.Payload)
		return false
	}
	gap := r.beyond > 0
	r.received += units.Bytes(p.Payload)
	r.expected++
	for r.beyond > 0 && r.have.Has(r.expected) {
		r.have.Clear(r.expected)
		r.expected++
		r.beyond--
	}
	return gap || r.prompt == PromptExpected
}

// decode makes the message whole: as many packets as it has data have come.
func (r *Receiver) decode() {
	r.have.TakeAll(r.expected, r.total)
	r.expected, r.beyond, r.received = r.total, 0, r.msg.upTo(r.total)
}

// Answer acknowledges p, which OnPacket has taken, where that did not: for a driver that doesn't let packets wait for others.
func (r *Receiver) Answer(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	r.answer(p, max(r.expected, r.lowest), out)
}

// answer acknowledges with the segment that holds packet base.
func (r *Receiver) answer(p *transport.Packet, base uint32, out *transport.Replies) {
	a := out.AddSack()
	a.Sent, a.PSN, a.Expected, a.Entropy = p.Sent, p.PSN, r.expected, p.Entropy
	if p.Flags&transport.CE != 0 {
		a.Flags |= transport.Echo
	}
	s := a.Sack
	if base == math.MaxUint32 {
		base = r.expected
	}
	s.Base, s.Beyond, s.Received, s.Probe = base&^63, r.beyond, r.received, p.Kind == transport.Probe
	if s.Base+64 > r.expected && s.Base < r.expected+r.span {
		s.Bitmap = *r.have.Word(s.Base)
	}
	r.unacked = 0
	if p.Kind == transport.Data {
		r.lowest = math.MaxUint32
	}
}

// Expected is the first packet that has not arrived.
func (r *Receiver) Expected() uint32 { return r.expected }

// Taken implements transport.Taker.
func (r *Receiver) Taken() uint32 { return r.expected }

// Has reports whether packet n has arrived, or lies beyond what the receiver keeps track of.
func (r *Receiver) Has(n uint32) bool {
	return n < r.expected || n-r.expected >= r.span || r.have.Has(n)
}

// Warm reads what the next packet needs.
func (r *Receiver) Warm() uint32 {
	return r.total + uint32(r.unacked) + uint32(*r.have.Word(r.expected))
}

// Complete reports whether all of the message has arrived.
func (r *Receiver) Complete() bool { return r.expected == r.total }
