// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Factory returns what makes the ends of each message of package fabric: a queue pair of its own, with the message
// split into as many of DCP's as it takes. c must be valid and not change any more. Packet.PSN counts from the
// beginning; Packet.Expected of data and returned headers is the MSN and, in its lowest byte, the round; of an
// acknowledgement it is the MSN of the first message that is not whole. Headers carry no check: simulated links lose
// packets and don't damage them.
func (c *Config) Factory() transport.Factory {
	base := *c
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		d := base.Complete(m.BaseRTT)
		f := flow{total: m.Packets(), per: uint32(d.Message), mtu: uint16(m.MTU)}
		f.last = m.Payload(f.total - 1)
		path := congestion.Path{LineRate: m.LineRate, BaseRTT: m.BaseRTT, MTU: m.MTU, Hops: m.Hops}
		return &sender{flow: f, req: NewRequester(d, path, 0, 0)}, &receiver{flow: f, rsp: NewResponder(d, 0), cfg: d}
	}
}

// flow is the division of a message of the fabric into messages of DCP.
type flow struct {
	total, per uint32 // packets
	mtu, last  uint16
}

// packets is how many message number n has.
func (f *flow) packets(n uint32) uint32 { return min(f.per, f.total-n*f.per) }

// messages is how many there are. They are counted on where their MSN wraps.
func (f *flow) messages() uint32 { return (f.total-1)/f.per + 1 }

type sender struct {
	flow
	req    *Requester
	posted uint32 // messages
	h      Header
}

func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	for s.posted < s.messages() {
		if _, err := s.req.Post(int(s.packets(s.posted))); err != nil {
			break
		}
		s.posted++
	}
	index, repeat, ok := s.req.Transmit(now, &s.h)
	if !ok {
		return false
	}
	n := s.posted - (s.posted-s.h.MSN)&mask24
	*p = transport.Packet{
		Sent: now, PSN: n*s.per + index, Expected: s.h.MSN<<8 | uint32(s.h.Round), Payload: s.mtu, Kind: transport.Data, Flags: transport.ECT,
	}
	if repeat {
		p.Flags |= transport.Repeat
	}
	if p.PSN == s.total-1 {
		p.Flags |= transport.Last
		p.Payload = s.last
	}
	return true
}

func (s *sender) Pace(now units.Instant) units.Rate {
	if s.req.cc == nil {
		return 0
	}
	rate, _ := s.req.cc.Limits(now)
	return rate
}

func (s *sender) OnPacket(now units.Instant, p *transport.Packet) {
	switch p.Kind {
	case transport.CNP:
		if s.req.cc != nil {
			s.req.cc.OnCNP(now)
		}
	case transport.Ack:
		s.req.OnAck(now, p.Expected)
	case transport.Returned:
		h := Header{MSN: p.Expected >> 8, PSN: p.PSN & mask24, Round: uint8(p.Expected), Returned: true}
		s.req.OnReturned(now, &h)
	}
}

func (s *sender) OnTimer(now units.Instant) {
	s.req.blocked = false
	s.req.OnTimer(now)
}

// Next is the timeout, or a change by the controller when its window is what stops the sender.
func (s *sender) Next() units.Instant {
	next := s.req.Next()
	if s.req.blocked {
		next = min(next, s.req.cc.Next())
	}
	return next
}

// Counts implements transport.Counter.
func (s *sender) Counts() transport.Counts {
	return transport.Counts{Repeated: uint32(s.req.Repeated), Timeouts: uint32(s.req.Timeouts)}
}

// Acked implements transport.Acker: packets of whole messages of DCP, which is what acknowledgements are about.
func (s *sender) Acked() uint32 { return min(s.total, (s.posted-uint32(s.req.Outstanding()))*s.per) }

func (s *sender) Done() bool { return s.posted == s.messages() && s.req.Outstanding() == 0 }

type receiver struct {
	flow
	rsp      *Responder
	complete uint32 // messages
	cfg      *Config
	cnpAt    units.Instant // when the next notification may be sent
}

func (r *receiver) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total {
		return
	}
	n, index := p.PSN/r.per, p.PSN%r.per
	h := Header{MSN: n & mask24, PSN: p.PSN & mask24, Round: uint8(p.Expected)}
	if p.Flags&transport.CE != 0 && now >= r.cnpAt {
		r.cnpAt = now.Add(r.cfg.CNPInterval)
		*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Kind: transport.CNP}
	}
	var a Answer
	if p.Flags&transport.Trimmed != 0 {
		if r.cfg.Published {
			h.Round = 0 // it has not survived
		}
		a = r.rsp.OnHeader(now, &h)
	} else {
		a = r.rsp.OnData(now, &h, index, r.packets(n))
	}
	r.complete += uint32(a.Completed)
	if a.Return {
		*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: h.MSN<<8 | uint32(h.Round), Kind: transport.Returned}
	}
	if a.Ack {
		*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: a.Expected, Kind: transport.Ack}
	}
}

func (r *receiver) Complete() bool { return r.complete == r.messages() }
