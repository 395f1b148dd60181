// SPDX-License-Identifier: Apache-2.0

package rc

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/transport/internal/posts"
	"github.com/sdr-rdma/go-sdr/units"
)

// retries is how many NAKs in a row that ask for the same packet GBN's sender answers at once: the most that a queue pair's retry_cnt can
// be, after which a NIC gives up. This one waits for its timeout. Senders that repeat at once whatever is lost send as much as before, and
// where they do so in step with each other queues drop the same packets for ever. Without NakInterval a gap has one NAK.
const retries = 7

// sender is the sending end of all modes. All numbers of packets are within the message, or the connection.
// What every packet touches comes first: a cache line of 64 bytes with GBN, two with IRN.
type sender struct {
	cfg      *Config
	deadline units.Instant // of the retransmission timer; Never while nothing is in flight
	hold     units.Instant // GBN: nothing is sent before, after a NAK; 0: no hold
	total    uint32
	window   uint32
	una      uint32 // the first that has not been acknowledged
	next     uint32 // the next to send for the first time; with GBN also the next to repeat
	high     uint32 // all before it have been sent at least once
	mtu      uint16
	last     uint16                // payload of the last packet; 0: this is a connection, with messages in posts
	cc       congestion.Controller // nil: none

	// IRN: while una < recoverEnd the sender repeats what is lost in [repeat, lost).
	recoverEnd, repeat, lost uint32
	sacked                   uint32       // how many in [una, next) are known to have arrived
	have                     bitring.Ring // which, of [una, una+window)

	blocked bool   // the controller's window forbade the last try to send
	naks    uint8  // GBN: how many have asked for packet una
	asked   uint32 // one past the last packet that asked for its acknowledgement
	ack     congestion.Ack
	counts  transport.Counts
	posts   *posts.Posts   // of a connection
	long    units.Duration // timeouts: see rto
	low     units.Duration
	_       [24]byte // the allocator begins blocks of such a size at a cache line
}

func newSender(c *Config, m transport.Message) *sender {
	s := &sender{cfg: c, window: c.window(&m), mtu: uint16(m.MTU), deadline: units.Never}
	s.long, s.low = c.timeouts(&m)
	if m.Open {
		s.posts = posts.New(m.MTU)
	} else {
		s.total = m.Packets()
		s.last = m.Payload(s.total - 1)
	}
	if c.Congestion != nil {
		s.cc = c.Congestion(congestion.Path{LineRate: m.LineRate, BaseRTT: m.BaseRTT, MTU: m.MTU, Hops: m.Hops})
	}
	if c.Mode == IRN {
		s.have = bitring.New(s.window)
	}
	return s
}

// inFlight is in packets.
func (s *sender) inFlight() uint32 { return s.next - s.una - s.sacked }

func (s *sender) bytes(packets uint32) units.Bytes { return units.Bytes(packets) * units.Bytes(s.mtu) }

// Transmit repeats what is lost before it sends what is new (IRN, section 3.1).
func (s *sender) Transmit(now units.Instant, p *transport.Packet) bool {
	if s.una == s.total || now < s.hold {
		return false
	}
	psn, repeat := s.nextRepeat()
	if !repeat {
		if s.next == s.total || s.next-s.una >= s.window || !s.controllerAllows(now) {
			return false
		}
		psn = s.next
		s.next++
	}
	payload, last := s.payload(psn)
	*p = transport.Packet{Sent: now, PSN: psn, Payload: payload, Kind: transport.Data, Flags: transport.ECT}
	if psn < s.high {
		p.Flags |= transport.Repeat
		s.counts.Repeated++
	} else {
		s.high = psn + 1
	}
	if last {
		p.Flags |= transport.Last
	}
	if flight := s.next - s.una; s.deadline == units.Never || flight == uint32(s.cfg.LowFlight) && !repeat {
		s.deadline = now.Add(s.rto())
	}
	if s.cc != nil {
		s.cc.OnSent(now, units.Bytes(p.Payload), s.bytes(s.inFlight()))
	}
	if s.asks(now, repeat) {
		p.Expected, s.asked = asks, psn+1
	}
	return true
}

// asks reports whether the packet that has just left asks for its acknowledgement (AckReq in the BTH): a receiver that answers every
// AckEvery packets would wait for more than may be sent.
func (s *sender) asks(now units.Instant, repeat bool) bool {
	flight := s.next - s.una
	return flight < uint32(s.cfg.AckEvery) && (repeat || flight >= s.window || s.full(now))
}

// answered reports whether what is in flight will be acknowledged though nothing follows it.
func (s *sender) answered() bool {
	return s.next-s.una >= uint32(s.cfg.AckEvery) || s.asked > s.una
}

// payload is that of a packet, and whether it ends a message.
func (s *sender) payload(psn uint32) (n uint16, last bool) {
	switch {
	case s.last == 0:
		return s.posts.Payload(psn)
	case psn == s.total-1:
		return s.last, true
	}
	return s.mtu, false
}

// Post implements transport.Poster. What the controller and the timers know of the messages before stays.
func (s *sender) Post(size units.Bytes) (end uint32) {
	s.total = s.posts.Add(size)
	return s.total
}

// Acked implements transport.Poster.
func (s *sender) Acked() uint32 { return s.una }

// nextRepeat finds the next lost packet of an IRN recovery that has not been repeated in it: one with
// a later packet that has arrived.
func (s *sender) nextRepeat() (psn uint32, ok bool) {
	if s.cfg.Mode != IRN {
		return 0, false
	}
	psn = s.have.FirstClear(max(s.repeat, s.una), s.lost)
	s.repeat = psn
	if psn >= s.lost {
		return 0, false
	}
	s.repeat++
	return psn, true
}

// controllerAllows reports whether a new packet may leave. Beyond a window that has shrunk behind packets which nobody will acknowledge
// yet, one does, to ask for that.
func (s *sender) controllerAllows(now units.Instant) bool {
	s.blocked = s.full(now) && s.answered()
	return !s.blocked
}

// full reports whether the controller's window has no room for another packet. One may always be in flight: a window below it is
// the pace's business.
func (s *sender) full(now units.Instant) bool {
	if s.cc == nil {
		return false
	}
	_, window := s.cc.Limits(now)
	return window != 0 && s.next != s.una && s.bytes(s.inFlight()+1) > window
}

// Pace is the controller's rate.
func (s *sender) Pace(now units.Instant) units.Rate {
	if s.cc == nil {
		return 0
	}
	rate, _ := s.cc.Limits(now)
	return rate
}

// Repace implements transport.Repacer.
func (s *sender) Repace(now units.Instant) (rate units.Rate, change units.Instant, ok bool) {
	if s.cc == nil || !s.cfg.Repace {
		return 0, units.Never, false
	}
	rate = s.Pace(now)
	return rate, s.cc.Next(), true
}

// OnPacket takes an ACK, a NAK or a CNP.
func (s *sender) OnPacket(now units.Instant, p *transport.Packet) {
	nak := p.Kind == transport.Nak
	if s.cc != nil && (p.Kind == transport.CNP || p.Flags&transport.Notify != 0 || nak && s.cfg.Mode == IRN) {
		s.cc.OnCNP(now) // IRN's NAKs carry one, as in conweave-ns3
	}
	if p.Kind == transport.CNP || p.Expected > s.high || s.una == s.total {
		return
	}
	before := s.una + s.sacked
	if p.Expected > s.una {
		s.advance(p.Expected)
		s.deadline = now.Add(s.rto())
	}
	if s.cfg.Mode == IRN && nak {
		s.gap(now, p.PSN)
	}
	if s.cc != nil {
		s.ack = congestion.Ack{
			RTT: now.Sub(p.Sent), Acked: s.bytes(s.una + s.sacked - before), Inflight: s.bytes(s.inFlight()),
			ECN: p.Flags&transport.Echo != 0, INT: p.INT,
		}
		s.cc.OnAck(now, &s.ack)
	}
	if s.cfg.Mode == GBN && nak && p.Expected == s.una {
		s.onNak(now)
	}
	if s.una == s.next {
		s.deadline = units.Never
	}
}

// advance acknowledges everything before expected.
func (s *sender) advance(expected uint32) {
	if s.cfg.Mode == IRN {
		s.sacked -= s.have.TakeAll(s.una, expected)
	}
	if s.naks > retries {
		s.hold = 0
	}
	s.una, s.naks = expected, 0
	if s.last == 0 {
		s.posts.Release(expected)
	}
	// GBN: packets that were sent before the go-back arrived after all.
	s.next = max(s.next, s.una)
}

// gap notes that psn has arrived out of order and enters recovery if it is not on. Of the packet that is expected nobody can say so: it
// would never be repeated.
func (s *sender) gap(now units.Instant, psn uint32) {
	if psn <= s.una || psn >= s.next {
		return
	}
	if s.have.Set(psn) {
		s.sacked++
	}
	lost := psn - min(psn, uint32(s.cfg.Reorder)) // the first that is not
	if lost <= s.una {
		return
	}
	if s.una >= s.recoverEnd {
		s.recoverEnd, s.repeat, s.lost = s.next, s.una, s.una
		if s.cc != nil {
			s.cc.OnLoss(now, congestion.Loss{Bytes: units.Bytes(s.mtu), Kind: congestion.LossNack})
		}
	}
	s.lost = max(s.lost, lost)
}

// onNak starts again at the packet that is missing, after retries of them once the timeout has passed.
func (s *sender) onNak(now units.Instant) {
	if s.naks > retries {
		return
	}
	s.naks++
	s.goBack(now, congestion.LossNack)
	switch {
	case s.naks > retries:
		s.hold = now.Add(s.rto())
	case s.cfg.NakDelay > 0:
		s.hold = now.Add(s.cfg.NakDelay)
	}
}

// goBack starts again at the first packet that has not been acknowledged.
func (s *sender) goBack(now units.Instant, kind congestion.LossKind) {
	if s.cc != nil && s.next > s.una {
		s.cc.OnLoss(now, congestion.Loss{Bytes: s.bytes(s.next - s.una), Kind: kind})
	}
	s.next, s.asked = s.una, s.una
}

func (s *sender) rto() units.Duration {
	if s.cfg.Mode == IRN && s.next-s.una < uint32(s.cfg.LowFlight) {
		return s.low
	}
	return s.long
}

// OnTimer repeats after a timeout.
func (s *sender) OnTimer(now units.Instant) {
	if now >= s.hold {
		s.hold = 0
		if s.naks > retries {
			s.naks = 0
			s.counts.Timeouts++
		}
	}
	s.blocked = false
	if now < s.deadline || s.una == s.total {
		return
	}
	s.deadline = now.Add(s.rto())
	s.counts.Timeouts++
	if s.cfg.Mode != IRN {
		s.naks = 0
		s.goBack(now, congestion.LossTimeout)
		return
	}
	if s.cc != nil {
		s.cc.OnLoss(now, congestion.Loss{Bytes: s.bytes(s.inFlight()), Kind: congestion.LossTimeout})
	}
	// The first is lost; what else is, its answer will tell.
	s.recoverEnd, s.repeat = s.next, s.una
	s.lost = max(s.lost, s.una+1)
}

// Next is the retransmission timer, the end of GBN's delay after a NAK, or a change by the
// controller.
func (s *sender) Next() units.Instant {
	if s.una == s.total {
		return units.Never
	}
	next := s.deadline
	if s.hold > 0 {
		next = min(next, s.hold)
	}
	if s.blocked {
		next = min(next, s.cc.Next())
	}
	return next
}

// Counts implements transport.Counter.
func (s *sender) Counts() transport.Counts { return s.counts }

// Done reports whether all has been acknowledged.
func (s *sender) Done() bool { return s.una == s.total }
