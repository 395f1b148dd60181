// SPDX-License-Identifier: Apache-2.0

// Package bare is the least that keeps packets moving: a window, and an acknowledgement for several
// packets that says how many. Nothing is repaired, nothing controls congestion: with a loss a message
// never ends. It is there to measure what drives transports, without what a transport adds.
package bare

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Factory makes the ends of messages with window packets in flight and an acknowledgement for every
// ackEvery packets and the last; both at least 1.
func Factory(window, ackEvery uint32) transport.Factory {
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		n := m.Packets()
		return &sender{msg: m, total: n, window: window}, &receiver{left: n, every: ackEvery}
	}
}

type sender struct {
	msg                           transport.Message
	total, sent, inFlight, window uint32
}

func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.sent == s.total || s.inFlight >= s.window {
		return false
	}
	*p = transport.Packet{Sent: now, PSN: s.sent, Payload: s.msg.Payload(s.sent), Kind: transport.Data}
	s.sent++
	s.inFlight++
	return true
}

func (s *sender) Pace(units.Instant) units.Rate { return 0 }

// OnPacket takes an acknowledgement, whose Expected is how many packets it is for.
func (s *sender) OnPacket(_ units.Instant, p *transport.Packet) {
	s.inFlight -= min(p.Expected, s.inFlight)
}

func (s *sender) OnTimer(units.Instant) {}

func (s *sender) Next() units.Instant { return units.Never }

// Acked implements transport.Acker: where nothing is lost, how many have been is also which.
func (s *sender) Acked() uint32 { return s.sent - s.inFlight }

func (s *sender) Done() bool { return s.sent == s.total && s.inFlight == 0 }

type receiver struct{ left, unacked, every uint32 }

func (r *receiver) OnPacket(_ units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || r.left == 0 {
		return
	}
	r.left--
	r.unacked++
	if r.unacked < r.every && r.left > 0 {
		return
	}
	*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: r.unacked, Kind: transport.Ack}
	r.unacked = 0
}

func (r *receiver) Complete() bool { return r.left == 0 }
