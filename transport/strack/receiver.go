// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"math"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/selective"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Receiver is the receiving end of one message (section 3.3.1).
type Receiver struct {
	msg      coded
	got      selective.Received
	total    uint32
	lowest   uint32 // of the packets since the last acknowledgement (LPSN)
	unacked  units.Bytes
	ackBytes units.Bytes
	end      uint32 // of a connection: behind the latest packet that is known to end a message
	prompt   Prompt
}

func newReceiver(c *Config, m *transport.Message, parity uint32) *Receiver {
	msg := codedOf(*m, parity)
	if m.Open {
		msg.data, msg.total = math.MaxUint32, math.MaxUint32
	}
	return &Receiver{msg: msg, total: msg.total, got: selective.MakeReceived(c.span(m)), lowest: math.MaxUint32, ackBytes: c.ackBytes(m), prompt: c.Prompt}
}

// OnPacket answers data and probes. A trimmed packet tells nothing but that it is missing.
func (r *Receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	switch {
	case p.Kind == transport.Probe:
		r.answer(p, p.PSN, out)
		return
	case p.Kind != transport.Data || p.PSN >= r.total || p.Flags&transport.Trimmed != 0:
		return
	case !r.got.Spans(p.PSN):
		return // of a sender that keeps track of more: it will come again
	}
	before := r.got.Expected
	now := r.take(p)
	if p.Flags&transport.Last != 0 {
		r.end = max(r.end, p.PSN+1)
	}
	if r.got.Expected < r.total && r.got.Expected+r.got.Beyond >= r.msg.data && r.total > r.msg.data {
		// As many packets as the message has data have come: decoding makes it whole.
		r.got.Complete(r.total, r.msg.upTo(r.total))
	}
	r.lowest = min(r.lowest, p.PSN)
	r.unacked += units.Bytes(p.Payload)
	whole := before < r.end && r.got.Expected >= r.end
	now = now || r.prompt == PromptMarked && p.Flags&transport.CE != 0
	if now || whole || r.unacked >= r.ackBytes || r.Complete() {
		r.answer(p, max(r.got.Expected, r.lowest), out)
	}
}

// take places a packet and reports whether it must be answered at once: a duplicate, or one that closes a
// gap.
func (r *Receiver) take(p *transport.Packet) (now bool) {
	expected, gap := p.PSN == r.got.Expected, r.got.Beyond > 0
	if !r.got.Take(p.PSN, p.Payload) {
		return true
	}
	return expected && (gap || r.prompt == PromptExpected)
}

// Answer acknowledges p, which OnPacket has taken, where that did not: for a driver that doesn't let packets wait for others.
func (r *Receiver) Answer(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	r.answer(p, max(r.got.Expected, r.lowest), out)
}

// answer acknowledges with the segment that holds packet base.
func (r *Receiver) answer(p *transport.Packet, base uint32, out *transport.Replies) {
	if base == math.MaxUint32 {
		base = r.got.Expected
	}
	r.got.Answer(p, base, out)
	r.unacked = 0
	if p.Kind == transport.Data {
		r.lowest = math.MaxUint32
	}
}

// Expected is the first packet that has not arrived.
func (r *Receiver) Expected() uint32 { return r.got.Expected }

// Taken implements transport.Taker.
func (r *Receiver) Taken() uint32 { return r.got.Expected }

// Has reports whether packet n has arrived, or lies beyond what the receiver keeps track of.
func (r *Receiver) Has(n uint32) bool {
	return !r.got.Spans(n) || r.got.Has(n)
}

// Warm reads what the next packet needs.
func (r *Receiver) Warm() uint32 {
	return r.total + uint32(r.unacked) + r.got.Warm()
}

// Complete reports whether all of the message has arrived.
func (r *Receiver) Complete() bool { return r.got.Expected == r.total }
