// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"cmp"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/transport/internal/selective"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Sender is the sending end of one message, or of a connection. Among thousands of messages each packet finds it in no cache, so that what is used
// together is in one line of 64 bytes: the first three for each packet sent, five for each acknowledgement.
type Sender struct {
	total      uint32
	span       uint32
	limit      uint32 // packets from here on may not be sent yet
	una        uint32 // the receiver's expected packet, as far as is known
	next       uint32 // the next to send for the first time
	highest    uint32 // one past the highest that is known to have arrived
	recoverEnd uint32 // recovery, while una < recoverEnd: what is missing before it is repeated from repeat on
	repeat     uint32
	cc         congestion.Controller
	paths      Paths

	// Payload sent, repeats included; received, without duplicates; and of what is neither received nor
	// lost for sure, what counts as lost (bytes_claimed_retransmit).
	sent, received, claimed units.Bytes
	probeAt                 units.Instant // when the next probe is due
	rtoAt                   units.Instant
	have                    bitring.Ring // what is known to have arrived of [una, una+span)

	msg    coded
	netRTT units.Duration
	probe  probeState
	// probedLast: what was sent last is a probe. asked: one was since something was heard, or the timeout was over.
	probedLast bool
	asked      bool
	probeEnd   uint32        // what had been sent when the probe was
	dueAt      units.Instant // since when the probe is due

	rto      units.Duration
	baseRTT  units.Duration // the least that was measured
	achieved units.Bytes    // in the last full period of a base round trip and the target delay (Algorithm 4)
	arrived  units.Bytes    // since then
	counted  units.Instant
	resent   bitring.Ring // of [una, recoverEnd): has been repeated in this recovery, or need not be

	ack congestion.Ack
	cfg *Config

	counts     transport.Counts
	violations uint64
	leastRTO   units.Duration // down to which rto follows round trips; 0: it doesn't, a driver sets it
	_          [24]byte       // the allocator has no other size whose objects all begin a line
}

type probeState uint8

const (
	noProbe  probeState = iota
	probeDue            // to be sent before anything else
	probed              // sent, and no acknowledgement of data since
)

func newSender(c *Config, message transport.Message, parity uint32, paths Paths) *Sender {
	m := codedOf(message, parity)
	span := c.span(&message)
	s := &Sender{
		cfg: c, msg: m, netRTT: c.netRTT(&message), total: m.total, limit: m.total, span: span, paths: paths, rto: cmp.Or(c.RTO, max(defaultRTO, 2*c.netRTT(&message))),
		have: selective.Ring(span), resent: selective.Ring(span), baseRTT: m.BaseRTT, probeAt: units.Never, rtoAt: units.Never,
	}
	if s.baseRTT <= 0 {
		s.baseRTT = s.netRTT
	}
	s.leastRTO = s.rto
	s.cc = c.Congestion(congestion.Path{LineRate: m.LineRate, BaseRTT: m.BaseRTT, MTU: m.MTU, Hops: m.Hops})
	return s
}

// Inflight is the payload that is on its way as far as is known: sent, repeats included, and neither received
// nor taken for lost.
func (s *Sender) Inflight() units.Bytes { return s.sent - s.received - s.claimed }

// Limit has packets from n on wait: the receiver has no buffer for them, or somebody else's window is full. At
// first there is no limit.
func (s *Sender) Limit(n uint32) { s.limit = min(n, s.total) }

// SetTimeout changes for how long the expected packet may stay the same, from the next that is awaited on. It doesn't follow round trips any
// more.
func (s *Sender) SetTimeout(d units.Duration) { s.rto, s.leastRTO = max(d, 1), 0 }

// Expected is the first packet that is not known to have arrived, Sent the first that has not been sent.
func (s *Sender) Expected() uint32 { return s.una }

// Sent is the first packet that has not been sent.
func (s *Sender) Sent() uint32 { return s.next }

// Span is how many packets from the expected one on may be under way.
func (s *Sender) Span() uint32 { return s.span }

// Has reports whether packet n is known to have arrived.
func (s *Sender) Has(n uint32) bool { return n < s.una || s.have.Has(n) }

// Lost takes packets for lost that were sent and are not known to have arrived: a driver whose paths keep their order knows before the
// packets beyond are more than a window. All others stay under way, repeats among them, and the timeout begins anew: it is for when nothing
// tells of losses.
func (s *Sender) Lost(now units.Instant, lost []uint32) {
	s.rtoAt = now.Add(s.rto)
	s.recoverEnd = max(s.recoverEnd, s.una)
	for _, n := range lost {
		for ; s.recoverEnd <= n; s.recoverEnd++ {
			s.resent.Set(s.recoverEnd)
		}
		s.resent.Clear(n)
		s.repeat = min(s.repeat, n)
	}
	s.claim(now, s.una, congestion.LossDetected)
}

// Post implements transport.Poster. The window, the measured round trip and what is known of paths stay. Timers, which ran for what was
// awaited, begin anew with the first packet.
func (s *Sender) Post(size units.Bytes) (end uint32) {
	if s.Done() {
		s.probe, s.probeAt, s.rtoAt = noProbe, units.Never, units.Never
	}
	s.total = s.msg.posts.Add(size)
	s.msg.data, s.msg.total, s.limit = s.total, s.total, s.total
	return s.total
}

// Acked implements transport.Poster.
func (s *Sender) Acked() uint32 { return s.una }

// Timeouts counts how often the expected packet stayed the same for too long.
func (s *Sender) Timeouts() uint64 { return uint64(s.counts.Timeouts) }

// Counts implements transport.Counter.
func (s *Sender) Counts() transport.Counts { return s.counts }

// Violations counts acknowledgements that can't be: of packets that were not sent, of paths that there
// are not. They change nothing.
func (s *Sender) Violations() uint64 { return s.violations }

// Transmit fills in a probe that is due, or the next packet that the window allows: repeats before new
// ones. At a low pace a probe is due whenever something may leave: packets take turns with them then, or none would ever leave.
func (s *Sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.Done() {
		return false
	}
	window, bounds := s.window(now)
	packets := int(window / s.msg.MTU)
	room := !bounds || s.Inflight()+s.msg.MTU <= max(window, s.msg.MTU)
	if room && (s.probe != probeDue || s.probedLast) && s.transmitData(now, p, packets) {
		s.probedLast = false
		return true
	}
	if s.probe != probeDue {
		return false
	}
	s.rtoAt = s.afterProbe(now)
	s.probe, s.probeEnd, s.probedLast, s.asked = probed, s.next, true, true
	*p = transport.Packet{Sent: now, PSN: s.una, Entropy: s.paths.Choose(packets), Kind: transport.Probe, Flags: transport.ECT}
	return true
}

// transmitData fills in the next packet, if there is one. The window is so many packets.
func (s *Sender) transmitData(now units.Instant, p *transport.Packet, window int) bool {
	psn, flags, ok := s.pick()
	if !ok {
		return false
	}
	if flags&transport.Repeat != 0 {
		s.counts.Repeated++
		s.paths.Lost(psn)
	}
	n, last := s.msg.payload(psn)
	*p = transport.Packet{Sent: now, PSN: psn, Payload: n, Entropy: s.paths.Choose(window), Kind: transport.Data, Flags: flags | transport.ECT}
	if last {
		p.Flags |= transport.Last
	}
	if psn == s.una && s.Inflight() == 0 && s.Pace(now) > 0 {
		s.rtoAt = units.Never // what it ran for is what leaves now
	}
	s.sent += units.Bytes(n)
	s.cc.OnSent(now, units.Bytes(n), s.Inflight())
	if s.probeAt == units.Never {
		s.probeAt = now.Add(probeRTTs * s.netRTT)
	}
	if s.rtoAt == units.Never {
		s.rtoAt = now.Add(s.rto)
	}
	return true
}

// window is the controller's. Of one that has none, a rate alone, it is a product of rate and round trip: that says how many paths
// are used and how far packets may overtake each other, and doesn't bound what is sent.
func (s *Sender) window(now units.Instant) (n units.Bytes, bounds bool) {
	if _, n = s.cc.Limits(now); n > 0 {
		return n, true
	}
	return s.msg.LineRate.Bytes(s.netRTT) + s.msg.MTU, false
}

// pick chooses the packet to send: what is lost from the expected one on, each once in a recovery, then
// new ones.
func (s *Sender) pick() (psn uint32, flags transport.Flags, ok bool) {
	if s.repeats() {
		s.resent.Set(s.repeat)
		s.repeat++
		return s.repeat - 1, transport.Repeat, true
	}
	if s.next >= s.limit || s.next-s.una >= s.span {
		return 0, 0, false
	}
	s.next++
	return s.next - 1, 0, true
}

// OnPacket takes a selective acknowledgement.
func (s *Sender) OnPacket(now units.Instant, p *transport.Packet) {
	if p.Kind == transport.CNP {
		s.cc.OnCNP(now)
		return
	}
	if p.Kind != transport.Sack || s.Done() {
		return
	}
	a := p.Sack
	if !s.plausible(p) {
		s.violations++
		return
	}
	s.asked = false
	ecn := p.Flags&transport.Echo != 0
	if ecn || !a.Probe {
		s.paths.Feedback(p.Entropy, ecn)
	}
	rtt := units.Duration(0)
	if p.Sent != units.Never {
		rtt = max(now.Sub(p.Sent), 1)
		s.baseRTT = min(s.baseRTT, rtt)
		if s.leastRTO > 0 {
			// Where even windows of a packet make a queue of more than the timeout, repeats of what only waits make it longer for ever.
			s.rto = max(s.leastRTO, 2*rtt)
		}
	}
	acked := max(a.Received-s.received, 0)
	s.received += acked
	s.claimed = min(s.claimed, s.sent-s.received)
	s.merge(now, p)
	s.probeAt = now.Add(probeRTTs * s.netRTT)
	if s.una == s.next { // nothing is awaited until the pace, or Limit, lets the next packet leave
		s.probe, s.probeAt, s.rtoAt = noProbe, units.Never, units.Never
	}
	if a.Probe && s.probe == probed && rtt > 0 && rtt-s.baseRTT < probeDelay*s.netRTT && s.achieved == 0 {
		s.recover(now, s.probeEnd, congestion.LossProbe)
	}
	if !a.Probe {
		s.probe = noProbe
		s.arrived += acked
	}
	if now.Sub(s.counted) > s.baseRTT+s.netRTT {
		s.achieved, s.arrived, s.counted = s.arrived, 0, now
	}
	s.ack = congestion.Ack{RTT: rtt, Acked: acked, Inflight: s.Inflight(), ECN: ecn, Probe: a.Probe, INT: p.INT}
	s.cc.OnAck(now, &s.ack)
	window, _ := s.window(now)
	if s.una >= s.recoverEnd && units.Bytes(a.Beyond) > max(window/s.msg.MTU, leastBeyond) && s.highest > s.una {
		s.recover(now, s.highest, congestion.LossDetected)
	}
}

// plausible reports whether an honest receiver can have sent p.
func (s *Sender) plausible(p *transport.Packet) bool {
	a := p.Sack
	if a != nil && p.Expected == s.total && s.next >= s.msg.data && a.Received == s.msg.upTo(s.total) && a.Beyond == 0 && a.Bitmap == 0 && int(p.Entropy) < s.cfg.Paths {
		return true // whole by parity, of which not all need have been sent
	}
	return selective.Plausible(p, s.next, s.total, s.msg.upTo(p.Expected), s.msg.upTo(s.next), s.cfg.Paths)
}

// merge takes over what the receiver has.
func (s *Sender) merge(now units.Instant, p *transport.Packet) {
	if p.Expected > s.una {
		s.have.TakeAll(s.una, p.Expected)
		s.resent.TakeAll(s.una, p.Expected)
		s.una = p.Expected
		if s.msg.posts != nil {
			s.msg.posts.Release(s.una)
		}
		s.repeat = max(s.repeat, s.una)
		s.highest = max(s.highest, s.una)
		s.rtoAt = now.Add(s.rto)
	}
	if s.una == s.next {
		// A packet that counted as lost and came after all leaves its repeat, which the receiver doesn't
		// count, in flight for ever. When all has arrived that shows.
		s.claimed = s.sent - s.received
	}
	a := p.Sack
	if fresh := selective.From(a, s.una); fresh != 0 {
		*s.have.Word(a.Base) |= fresh
		s.highest = max(s.highest, a.Base+uint32(64-bits.LeadingZeros64(fresh)))
	}
}

// recover takes all that has not been received before end for lost: what is sent, not received and not
// after end counts as lost even if there is nothing to repeat.
func (s *Sender) recover(now units.Instant, end uint32, kind congestion.LossKind) {
	end = max(end, s.una)
	s.resent.TakeAll(s.una, max(s.una, s.recoverEnd))
	s.repeat, s.recoverEnd = s.una, end
	s.claim(now, end, kind)
}

// claim counts as lost what is sent, and neither received nor under way. What is under way begins at packet from.
func (s *Sender) claim(now units.Instant, from uint32, kind congestion.LossKind) {
	before := s.claimed
	s.claimed = max(s.sent-s.received-s.underWay(from), 0)
	s.cc.OnLoss(now, congestion.Loss{Bytes: max(s.claimed-before, 0), Kind: kind})
}

// underWay is the payload of what was sent from a packet on, and is neither received nor still to be repeated.
func (s *Sender) underWay(from uint32) (sum units.Bytes) {
	for n := from; n < s.next; {
		end := min(n&^63+64, s.next)
		all := ^uint64(0) >> (64 - (end - n)) << (n & 63)
		is := all &^ *s.have.Word(n)
		if n < s.recoverEnd {
			repeated := *s.resent.Word(n)
			if s.recoverEnd < end {
				repeated |= ^uint64(0) << (s.recoverEnd & 63)
			}
			is &= repeated
		}
		if is == all {
			sum += s.msg.upTo(end) - s.msg.upTo(n)
		} else {
			for ; is != 0; is &= is - 1 {
				size, _ := s.msg.payload(n&^63 + uint32(bits.TrailingZeros64(is)))
				sum += units.Bytes(size)
			}
		}
		n = end
	}
	return sum
}

// OnTimer sends a probe or, after the timeout, takes all that was sent for lost.
func (s *Sender) OnTimer(now units.Instant) {
	if s.Done() {
		return
	}
	switch {
	case now < s.rtoAt:
	case s.heldBack(now):
		s.rtoAt = units.Never
	default:
		s.counts.Timeouts++
		s.rtoAt, s.asked = now.Add(s.rto), false
		s.recover(now, s.next, congestion.LossTimeout)
	}
	if now >= s.probeAt {
		s.probeAt = now.Add(probeRTTs * s.netRTT)
		if s.probe != probeDue {
			s.probe, s.dueAt = probeDue, now
		}
	}
}

// heldBack reports whether the pace is what keeps an answer from coming: it holds back the probe that asks for one, or what is to be repeated while
// nothing is under way. The timeout begins anew when that leaves. That nothing seems to be under way isn't enough: what counted as lost and came after
// all makes it look so while a repeat is, and if that got lost only the timeout tells.
func (s *Sender) heldBack(now units.Instant) bool {
	return (s.probe == probeDue && !s.asked || s.Inflight() == 0 && s.repeats()) && s.Pace(now) > 0
}

// repeats reports whether there is a packet to repeat, at s.repeat then.
func (s *Sender) repeats() bool {
	for ; s.repeat < s.recoverEnd; s.repeat++ {
		if !s.have.Has(s.repeat) && !s.resent.Has(s.repeat) {
			return true
		}
	}
	return false
}

// afterProbe is when the timeout is over once the probe that is due has left: the time for which the pace held back the first that asks doesn't count.
func (s *Sender) afterProbe(now units.Instant) units.Instant {
	anew := now.Add(s.rto)
	switch {
	case s.rtoAt == units.Never:
		return anew
	case s.asked || s.Pace(now) == 0:
		return s.rtoAt
	}
	return max(s.rtoAt, min(s.rtoAt.Add(now.Sub(s.dueAt)), anew))
}

// Pace returns the controller's rate.
func (s *Sender) Pace(now units.Instant) units.Rate {
	r, _ := s.cc.Limits(now)
	return r
}

// Next is when OnTimer wants to be called.
func (s *Sender) Next() units.Instant {
	if s.Done() {
		return units.Never
	}
	return min(s.probeAt, s.rtoAt)
}

// Warm reads what the next packet or acknowledgement needs.
func (s *Sender) Warm() uint32 {
	seen := s.una + uint32(s.sent) + uint32(s.netRTT) + uint32(s.rto) + uint32(s.ack.RTT)
	if w, ok := s.cc.(transport.Warmer); ok {
		seen += w.Warm()
	}
	if w, ok := s.paths.(transport.Warmer); ok {
		seen += w.Warm()
	}
	return seen
}

// Done reports whether all has been acknowledged.
func (s *Sender) Done() bool { return s.una == s.total }

// Rebase begins anew with another base round trip: the path has changed. The controller is its owner's to tell.
func (s *Sender) Rebase(base units.Duration) {
	s.netRTT, s.baseRTT = max(base, 1), max(base, 1)
}
