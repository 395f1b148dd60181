// SPDX-License-Identifier: Apache-2.0

package racktlp

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// transmission is one sending of a packet.
type transmission struct {
	at  units.Instant
	psn uint32
}

// probeState is how far the tail loss probe is (RFC 8985, section 7).
type probeState uint8

const (
	noProbe  probeState = iota
	probeDue            // its timer has run out: it is sent next, whatever the window says, unless a repeat is
	probed              // under way, while una is below probeEnd
)

// sender is the sending end of one message. A packet of [una, next) is in one of three states: acknowledged (acked),
// lost and to be repeated (lost), or under way (neither).
type sender struct {
	cfg          *Config
	total        uint32
	window, span uint32
	una, next    uint32
	mtu, last    uint16

	acked, lost      bitring.Ring // of [una, una+span)
	ackedN, lostN    uint32       // how many of each
	sentAt           []units.Instant
	mask             uint32                  // of indices of sentAt
	sent             ring.Ring[transmission] // in the order of time; those that are no longer the last of their packet are skipped
	repeats          ring.Ring[uint32]       // what is lost, in the order in which that was found; acknowledged ones are skipped
	newest           units.Instant           // RACK.xmit_ts: when the latest packet that has been acknowledged was sent
	rtt, srtt        units.Duration          // RACK.rtt, and smoothed (RFC 6298)
	reorderAt, tlpAt units.Instant           // timers; Never: not running
	rtoAt            units.Instant
	probe            probeState
	probeEnd         uint32 // TLP.end_seq
	measured         bool   // a round trip has been
	rto              units.Duration
	counts           transport.Counts
}

func newSender(c *Config, m *transport.Message) *sender {
	s := &sender{
		cfg: c, total: m.Packets(), window: c.window(m), span: c.span(m), mtu: uint16(m.MTU), srtt: max(m.BaseRTT, 1),
		reorderAt: units.Never, tlpAt: units.Never, rtoAt: units.Never, newest: -1, rto: cmp.Or(c.RTO, max(defaultRTO, 4*m.BaseRTT)),
	}
	s.rtt, s.last = s.srtt, m.Payload(s.total-1)
	s.acked, s.lost = bitring.New(s.span), bitring.New(s.span)
	s.mask = s.acked.Bits() - 1
	s.sentAt = make([]units.Instant, s.mask+1)
	return s
}

// pipe is how many packets are under way (RFC 6675).
func (s *sender) pipe() uint32 { return s.next - s.una - s.ackedN - s.lostN }

// Transmit repeats what is lost before it sends what is new.
func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.una == s.total {
		return false
	}
	psn, ok := s.choose()
	if !ok {
		return false
	}
	*p = transport.Packet{Sent: now, PSN: psn, Payload: s.mtu, Kind: transport.Data, Flags: transport.ECT}
	if psn == s.total-1 {
		p.Flags |= transport.Last
		p.Payload = s.last
	}
	if psn < s.next {
		p.Flags |= transport.Repeat
		s.counts.Repeated++
	} else {
		s.next++
	}
	s.sentAt[psn&s.mask] = now
	s.sent.Push(transmission{now, psn})
	if s.rtoAt == units.Never {
		s.rtoAt = now.Add(s.rto)
	}
	s.armProbe(now)
	return true
}

// choose takes the next packet to send: a probe whatever the window says, what is lost, or what is new.
func (s *sender) choose() (psn uint32, ok bool) {
	fresh := s.next < s.total && s.next-s.una < s.span
	if s.probe == probeDue && s.lostN == 0 {
		s.probe, s.probeEnd = probed, s.next
		if fresh {
			s.probeEnd = s.next + 1
			return s.next, true
		}
		return s.next - 1, true
	}
	if s.probe == probeDue {
		s.probe = noProbe // a repeat does as well
	}
	if s.pipe() >= s.window {
		return 0, false
	}
	for s.repeats.Len() > 0 {
		if psn = s.repeats.Pop(); psn >= s.una && s.lost.Has(psn) {
			s.lost.Clear(psn)
			s.lostN--
			return psn, true
		}
	}
	return s.next, fresh
}

// Pace implements transport.Sender: there is no limit.
func (s *sender) Pace(units.Instant) units.Rate { return 0 }

// OnPacket takes an acknowledgement.
func (s *sender) OnPacket(now units.Instant, p *transport.Packet) {
	if p.Kind != transport.Ack || p.Expected > s.next || p.PSN >= s.next || s.una == s.total {
		return
	}
	before := s.una + s.ackedN
	if p.Expected > s.una {
		s.advance(p.Expected)
		s.rtoAt = now.Add(s.rto)
	}
	if p.PSN >= s.una && s.acked.Set(p.PSN) {
		s.ackedN++
		if s.lost.Has(p.PSN) {
			s.lost.Clear(p.PSN)
			s.lostN--
		}
	}
	if s.probe == probed && s.una >= s.probeEnd {
		s.probe = noProbe
	}
	if s.una+s.ackedN != before {
		s.measure(now.Sub(p.Sent))
	}
	// RFC 8985, section 6.2, step 2. Copies count, too: a probe that repeats what has arrived shows what was sent before it.
	if p.Sent > s.newest {
		s.newest, s.rtt = p.Sent, now.Sub(p.Sent)
	}
	s.detect(now)
	s.armProbe(now)
	if s.una == s.next {
		s.rtoAt = units.Never
	}
}

// advance acknowledges everything before expected.
func (s *sender) advance(expected uint32) {
	s.ackedN -= s.acked.TakeAll(s.una, expected)
	s.lostN -= s.lost.TakeAll(s.una, expected)
	s.una = expected
}

// measure smooths the round trip (RFC 6298, section 2).
func (s *sender) measure(rtt units.Duration) {
	if rtt < 1 {
		return
	}
	if !s.measured {
		s.measured, s.srtt = true, rtt
		return
	}
	s.srtt += (rtt - s.srtt) / 8
}

// reorder is the reordering window.
func (s *sender) reorder() units.Duration {
	if s.cfg.Reorder > 0 {
		return s.cfg.Reorder
	}
	return s.srtt
}

// underWay reports whether x is the last transmission of a packet that is neither acknowledged nor lost.
func (s *sender) underWay(x *transmission) bool {
	return x.psn >= s.una && x.psn < s.next && s.sentAt[x.psn&s.mask] == x.at && !s.acked.Has(x.psn) && !s.lost.Has(x.psn)
}

// detect takes packets for lost that were sent before the newest acknowledged one, a round trip and the reordering window ago
// (RFC 8985, section 6.2, step 5), and sets the timer for the first that will be.
func (s *sender) detect(now units.Instant) {
	s.reorderAt = units.Never
	for s.sent.Len() > 0 {
		x := s.sent.Front()
		if s.underWay(x) {
			if x.at >= s.newest {
				return // nothing that was sent after it has arrived
			}
			if due := x.at.Add(s.rtt + s.reorder()); due > now {
				s.reorderAt = due
				return
			}
			s.lose(x.psn)
		}
		s.sent.Pop()
	}
}

func (s *sender) lose(psn uint32) {
	s.lost.Set(psn)
	s.lostN++
	s.repeats.Push(psn)
}

// armProbe sets the timer of the tail loss probe (RFC 8985, section 7.2): two round trips from now while something is
// under way, nothing is being repaired and no probe is out.
func (s *sender) armProbe(now units.Instant) {
	s.tlpAt = units.Never
	if s.pipe() > 0 && s.lostN == 0 && s.reorderAt == units.Never && s.probe != probed {
		s.tlpAt = now.Add(2 * s.srtt)
	}
}

// OnTimer runs whichever of the three timers is due.
func (s *sender) OnTimer(now units.Instant) {
	if s.una == s.total {
		return
	}
	if now >= s.reorderAt {
		s.detect(now)
		s.armProbe(now)
	}
	if now >= s.tlpAt {
		s.tlpAt = units.Never
		if s.probe = noProbe; s.pipe() > 0 {
			s.probe = probeDue
		}
	}
	if now < s.rtoAt {
		return
	}
	s.rtoAt = now.Add(s.rto)
	s.counts.Timeouts++
	s.probe, s.reorderAt, s.tlpAt = noProbe, units.Never, units.Never
	for ; s.sent.Len() > 0; s.sent.Pop() {
		if x := s.sent.Front(); s.underWay(x) {
			s.lose(x.psn)
		}
	}
}

// Next is the first of the timers.
func (s *sender) Next() units.Instant {
	if s.una == s.total {
		return units.Never
	}
	return min(s.reorderAt, s.tlpAt, s.rtoAt)
}

// Counts implements transport.Counter.
func (s *sender) Counts() transport.Counts { return s.counts }

// Acked implements transport.Acker.
func (s *sender) Acked() uint32 { return s.una }

// Done reports whether all has been acknowledged.
func (s *sender) Done() bool { return s.una == s.total }
