// SPDX-License-Identifier: Apache-2.0

package uet

import (
	"cmp"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/transport/internal/selective"
	"github.com/sdr-rdma/go-sdr/units"
)

// sender is the sending end of one message.
type sender struct {
	cfg   *Config
	cc    congestion.Controller
	paths paths
	msg   transport.Message

	total, span uint32
	una, next   uint32       // the receiver's expected packet as far as is known, and the next to send for the first time
	have        bitring.Ring // of [una, una+span): has arrived
	lost        bitring.Ring // is to be repeated
	waiting     uint32       // how many of these there are, all from repeat on
	repeat      uint32

	// Payload under way: sent, and neither acknowledged, nor trimmed, nor taken for lost.
	flight   units.Bytes
	received units.Bytes // as the receiver counts

	// What has been sent and not looked at since, in its order, as a ring; sentAt is when each packet was last.
	sent       []sending
	head, size uint32
	sentAt     []units.Instant // by packet modulo span
	deadline   units.Instant
	rto        units.Duration
	quiet      units.Instant // since when nothing was heard; later, when the controller was last told of that

	ack    congestion.Ack
	counts transport.Counts

	violations uint64
}

// sending is one transmission.
type sending struct {
	psn  uint32
	path uint16
	at   units.Instant
}

func newSender(c *Config, m transport.Message, seed uint32) *sender {
	span := c.span(&m)
	s := &sender{
		cfg: c, msg: m, total: m.Packets(), span: span, paths: c.chooser(seed), deadline: units.Never,
		rto:  cmp.Or(c.RTO, max(defaultRTO, 2*c.baseRTT(&m))),
		have: selective.Ring(span), lost: selective.Ring(span), sent: make([]sending, span), sentAt: make([]units.Instant, span),
	}
	s.cc = c.Congestion(congestion.Path{LineRate: m.LineRate, BaseRTT: m.BaseRTT, MTU: m.MTU, Hops: m.Hops})
	return s
}

// Transmit repeats what is known to be lost, lowest first, before it sends what is new.
func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.Done() || s.size == uint32(len(s.sent)) {
		return false
	}
	psn, flags := s.next, transport.ECT
	switch {
	case s.waiting > 0:
		for !s.lost.Has(s.repeat) {
			s.repeat++
		}
		psn, flags = s.repeat, transport.ECT|transport.Repeat
	case s.next == s.total || s.next-s.una >= s.span:
		return false
	}
	n := s.msg.Payload(psn)
	_, window := s.cc.Limits(now)
	bounds := window > 0
	if !bounds { // a rate alone: a product of it and the round trip says how many paths are used
		window = s.msg.LineRate.Bytes(s.cfg.baseRTT(&s.msg)) + s.msg.MTU
	}
	if bounds && s.flight > 0 && s.flight+units.Bytes(n) > window {
		return false
	}
	if flags&transport.Repeat != 0 {
		s.lost.Clear(psn)
		s.waiting--
		s.counts.Repeated++
	} else {
		s.next++
	}
	s.flight += units.Bytes(n)
	*p = transport.Packet{Sent: now, PSN: psn, Payload: n, Entropy: s.paths.Choose(int(window / s.msg.MTU)), Kind: transport.Data, Flags: flags}
	if psn+1 == s.total {
		p.Flags |= transport.Last
	}
	if flags&transport.Repeat != 0 || s.next == s.total || bounds && s.flight+s.msg.MTU > window {
		p.Expected = asks
	}
	s.note(now, p)
	s.cc.OnSent(now, units.Bytes(n), s.flight)
	return true
}

// note remembers a transmission for the timer.
func (s *sender) note(now units.Instant, p *transport.Packet) {
	s.sent[(s.head+s.size)%uint32(len(s.sent))] = sending{p.PSN, p.Entropy, now}
	s.size++
	s.sentAt[p.PSN%s.span] = now
	if s.deadline == units.Never {
		s.deadline = now.Add(s.rto)
	}
}

// outstanding reports whether the last transmission of a packet is under way.
func (s *sender) outstanding(psn uint32) bool {
	return psn >= s.una && psn < s.next && !s.have.Has(psn) && !s.lost.Has(psn)
}

// OnPacket takes acknowledgements, positive and negative.
func (s *sender) OnPacket(now units.Instant, p *transport.Packet) {
	if s.Done() {
		return
	}
	s.quiet = now
	switch p.Kind {
	case transport.Nak:
		s.onNak(now, p)
	case transport.Sack:
		if !selective.Plausible(p, s.next, s.total, s.upTo(p.Expected), s.upTo(s.next), s.cfg.Paths) {
			s.violations++
			return
		}
		s.onSack(now, p)
	case transport.CNP:
		s.cc.OnCNP(now)
	}
	s.trimNotes()
}

// onNak queues a trimmed packet for repetition.
func (s *sender) onNak(now units.Instant, p *transport.Packet) {
	if p.PSN >= s.next || int(p.Entropy) >= s.cfg.Paths {
		s.violations++
		return
	}
	if !s.outstanding(p.PSN) || s.sentAt[p.PSN%s.span] != p.Sent {
		return // of an earlier transmission
	}
	s.giveUp(now, p.PSN, congestion.LossTrim)
	s.paths.Trimmed(p.Entropy)
}

// giveUp queues a packet that is under way for repetition.
func (s *sender) giveUp(now units.Instant, psn uint32, kind congestion.LossKind) {
	n := units.Bytes(s.msg.Payload(psn))
	s.cc.OnLoss(now, congestion.Loss{Bytes: n, Kind: kind})
	s.lost.Set(psn)
	if s.waiting == 0 || psn < s.repeat {
		s.repeat = psn
	}
	s.waiting++
	s.flight = max(s.flight-n, 0)
}

func (s *sender) onSack(now units.Instant, p *transport.Packet) {
	a := p.Sack
	acked := max(a.Received-s.received, 0)
	s.received += acked
	s.flight = max(s.flight-acked, 0)
	rtt := units.Duration(0)
	if p.Sent != units.Never && p.PSN < s.next && s.sentAt[p.PSN%s.span] == p.Sent {
		rtt = max(now.Sub(p.Sent), 1)
	}
	s.merge(p)
	ecn := p.Flags&transport.Echo != 0
	s.paths.Feedback(p.Entropy, ecn)
	s.ack = congestion.Ack{RTT: rtt, Acked: acked, Inflight: s.flight, ECN: ecn, INT: p.INT}
	s.cc.OnAck(now, &s.ack)
}

// merge takes over what the receiver has.
func (s *sender) merge(p *transport.Packet) {
	if p.Expected > s.una {
		s.waiting -= s.lost.TakeAll(s.una, p.Expected)
		s.have.TakeAll(s.una, p.Expected)
		s.una = p.Expected
		s.repeat = max(s.repeat, s.una)
	}
	a := p.Sack
	fresh := selective.From(a, s.una)
	if fresh == 0 {
		return
	}
	*s.have.Word(a.Base) |= fresh
	if again := s.lost.Word(a.Base); *again&fresh != 0 { // came after all
		s.waiting -= uint32(bits.OnesCount64(*again & fresh))
		*again &^= fresh
	}
}

// upTo is the payload of the packets before n.
func (s *sender) upTo(n uint32) units.Bytes { return min(s.msg.Size, units.Bytes(n)*s.msg.MTU) }

// trimNotes forgets transmissions that are no longer under way, and sets the timer by the first that is.
func (s *sender) trimNotes() {
	for s.size > 0 {
		n := &s.sent[s.head]
		if s.outstanding(n.psn) && s.sentAt[n.psn%s.span] == n.at {
			s.deadline = n.at.Add(s.rto)
			return
		}
		s.head = (s.head + 1) % uint32(len(s.sent))
		s.size--
	}
	s.deadline = units.Never
	// A packet that was taken for lost and came after all leaves its repeat, which the receiver doesn't count, in flight
	// for ever. When nothing is under way that shows.
	s.flight = 0
}

// OnTimer takes packets for lost that have been under way for too long. Each has a timer of its own: for the controller it is a timeout only
// if nothing was heard for so long, and once.
func (s *sender) OnTimer(now units.Instant) {
	for !s.Done() && now >= s.deadline {
		n := s.sent[s.head]
		s.counts.Timeouts++
		s.paths.Lost(n.path)
		kind := congestion.LossDetected
		if now.Sub(s.quiet) >= s.rto {
			kind, s.quiet = congestion.LossTimeout, now
		}
		s.giveUp(now, n.psn, kind)
		s.trimNotes()
	}
}

// Pace returns the controller's rate.
func (s *sender) Pace(now units.Instant) units.Rate {
	r, _ := s.cc.Limits(now)
	return r
}

// Next is when OnTimer wants to be called.
func (s *sender) Next() units.Instant {
	if s.Done() {
		return units.Never
	}
	return s.deadline
}

// Acked implements transport.Acker.
func (s *sender) Acked() uint32 { return s.una }

// Done reports whether all has been acknowledged.
func (s *sender) Done() bool { return s.una == s.total }

// Counts tells what was repeated.
func (s *sender) Counts() transport.Counts { return s.counts }
