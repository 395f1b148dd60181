// SPDX-License-Identifier: Apache-2.0

package mprdma

import (
	"cmp"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// sender is the sending end of one message.
type sender struct {
	cfg       *Config
	total     uint32
	una, next uint32
	high      uint32 // all before it have been sent at least once
	newest    uint32 // snd_ooh: the highest acknowledged packet of this pass, plus one
	recover   uint32 // after a NAK: further ones are ignored while una is below it; 0: none
	mtu, last uint16

	window float64           // cwnd, in packets, at least 1
	acked  bitring.Ring      // of [una, una+acked.Bits())
	ackedN uint32            // how many of them: inflate
	paths  ring.Ring[uint16] // what may be sent now: a path for each packet

	rtt      units.Duration // of the latest answer
	probeAt  units.Instant  // when the next new path may be tried
	rto      units.Duration
	deadline units.Instant // of the retransmission timer; Never while nothing is in flight
	draws    rand.PCG
	counts   transport.Counts
}

func newSender(c *Config, m *transport.Message, draws uint64) *sender {
	s := &sender{cfg: c, total: m.Packets(), mtu: uint16(m.MTU), rtt: m.BaseRTT, rto: cmp.Or(c.RTO, max(defaultRTO, 2*m.BaseRTT)), deadline: units.Never}
	s.draws.Seed(draws, 0)
	s.last = m.Payload(s.total - 1)
	initial := min(c.initial(m), s.total)
	s.window = float64(initial)
	s.acked = bitring.New(min(s.total, max(2*uint32(c.Bitmap), 4*initial)))
	s.allow(initial)
	return s
}

// draw is a number of 16 bits.
func (s *sender) draw() uint16 {
	return uint16(s.draws.Uint64() >> 48)
}

// allow lets n packets be sent on paths that are drawn.
func (s *sender) allow(n uint32) {
	for range n {
		s.paths.Push(s.draw())
	}
}

// flight is how many packets are under way.
func (s *sender) flight() uint32 { return s.next - s.una - s.ackedN }

// room is how many packets more the window allows to be sent than already may be.
func (s *sender) room() int { return int(s.window) - int(s.flight()) - s.paths.Len() }

// Transmit sends the next packet on the next path.
func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.next >= s.total || s.paths.Len() == 0 || s.next-s.una >= s.acked.Bits() {
		return false
	}
	psn := s.next
	s.next++
	*p = transport.Packet{Sent: now, PSN: psn, Entropy: s.paths.Pop(), Payload: s.mtu, Kind: transport.Data, Flags: transport.ECT}
	if psn == s.total-1 {
		p.Flags |= transport.Last
		p.Payload = s.last
	}
	if psn < s.high {
		p.Flags |= transport.Repeat
		s.counts.Repeated++
	} else {
		s.high = psn + 1
	}
	if s.deadline == units.Never {
		s.deadline = now.Add(s.rto)
	}
	return true
}

// Pace implements transport.Sender: acknowledgements are the clock.
func (s *sender) Pace(units.Instant) units.Rate { return 0 }

// OnPacket takes an answer.
func (s *sender) OnPacket(now units.Instant, p *transport.Packet) {
	if p.Kind != transport.Ack && p.Kind != transport.Nak || p.Expected > s.high || p.PSN >= s.high || s.una == s.total {
		return
	}
	if p.Expected > s.una {
		s.advance(p.Expected)
		s.deadline = now.Add(s.rto)
	}
	if p.Kind == transport.Nak {
		if s.recover == 0 && p.Expected == s.una {
			s.recover = s.high
			s.goBack()
		}
		return
	}
	if p.PSN >= s.una && p.PSN < s.next && s.acked.Set(p.PSN) {
		s.ackedN++
	}
	s.rtt = now.Sub(p.Sent)
	if p.PSN < s.next { // what was sent before going back says nothing about the paths of this pass
		s.newest = max(s.newest, p.PSN+1)
	}
	slow := p.PSN+uint32(s.cfg.Delta) < s.newest
	switch {
	case slow:
		s.window--
	case p.Flags&transport.Echo != 0:
		s.window -= 0.5
	default:
		s.window += 1 / s.window
	}
	s.window = min(max(s.window, 1), float64(s.acked.Bits()))
	s.grant(now, p.Entropy, slow)
	if s.una == s.next {
		s.deadline = units.Never
	}
}

// grant lets what the window allows be sent on the path of the answer, two packets at most: with one, none or two for each
// answer the sender keeps the clock. A slow path gets none.
func (s *sender) grant(now units.Instant, path uint16, slow bool) {
	if slow {
		if s.flight() == 0 && s.paths.Len() == 0 {
			s.allow(1) // there is no other answer to come
		}
		return
	}
	for range min(s.room(), 2) {
		if now >= s.probeAt {
			s.probeAt = now.Add(max(s.rtt, 1))
			if s.draw()%1000 < probesPerMille {
				s.allow(1)
				continue
			}
		}
		s.paths.Push(path)
	}
}

// advance acknowledges everything before expected.
func (s *sender) advance(expected uint32) {
	s.next = max(s.next, expected) // what was sent before going back arrived after all
	s.ackedN -= s.acked.TakeAll(s.una, expected)
	s.una = expected
	if s.una >= s.recover {
		s.recover = 0
	}
}

// goBack starts again at the first packet that has not been acknowledged, with the window as it is.
func (s *sender) goBack() {
	s.acked.TakeAll(s.una, s.next)
	s.next, s.ackedN, s.newest = s.una, 0, s.una
	s.paths.DeleteFunc(func(*uint16) bool { return true })
	s.allow(uint32(s.window))
}

// OnTimer goes back after a timeout.
func (s *sender) OnTimer(now units.Instant) {
	if now < s.deadline || s.una == s.total {
		return
	}
	s.deadline = now.Add(s.rto)
	s.counts.Timeouts++
	s.recover = 0
	s.goBack()
}

// Next is the retransmission timer.
func (s *sender) Next() units.Instant {
	if s.una == s.total {
		return units.Never
	}
	return s.deadline
}

// Counts implements transport.Counter.
func (s *sender) Counts() transport.Counts { return s.counts }

// Acked implements transport.Acker.
func (s *sender) Acked() uint32 { return s.una }

// Done reports whether all has been acknowledged.
func (s *sender) Done() bool { return s.una == s.total }
