// SPDX-License-Identifier: Apache-2.0

package bottleneck

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// silence is how often a sender that hears nothing tries one packet.
	silence = 250 * units.Millisecond
	// firstTimeout holds before anything was heard (RFC 6298, 2.1).
	firstTimeout = units.Second
	// catchUp is how much of its pace a sender that was stalled makes up for.
	catchUp = 3 * units.Millisecond
)

// A sender is a flow at work.
type sender struct {
	Flow
	bed   *Bed
	index int

	sendAt   units.Instant // when the next packet may go; Never while the window is full
	paced    units.Instant // the pacer's clock
	deadline units.Instant // of the timeout
	timedOut bool          // and nothing has arrived since
	srtt     units.Duration
	least    units.Duration

	here, there host
	resumes     units.Instant // the end of a stall of the sender's
	limited     bool          // by its rate, the last time, and may catch up with what a stall cost

	sentAt []units.Instant // of the packets from una on; a ring
	state  []fate
	una    uint64
	next   uint64
	flight int // packets

	acks  ring.Ring[ack] // on their way back
	comes units.Instant  // when the last packet does, where the link has jitter
	told  congestion.Ack

	records []Record
}

type fate uint8

const (
	outstanding fate = iota
	settled
)

type ack struct {
	at      units.Instant
	seq     uint64
	ce      bool
	trimmed bool
}

func newSender(b *Bed, i int, f Flow) *sender {
	s := &sender{Flow: f, bed: b, index: i, sendAt: f.Start, paced: f.Start, deadline: units.Never}
	s.here, s.there = newHost(f.Sender, b.link.Seed, uint64(2*i+1)), newHost(f.Receiver, b.link.Seed, uint64(2*i+2))
	s.sentAt, s.state = make([]units.Instant, 1<<10), make([]fate, 1<<10)
	return s
}

func (s *sender) record(now units.Instant) *Record {
	i := int(now / units.Instant(Bin))
	for len(s.records) <= i {
		s.records = append(s.records, Record{})
	}
	return &s.records[i]
}

// stalled reports whether the sender's host lets it wait, until resumes.
func (s *sender) stalled(now units.Instant) bool {
	s.resumes = s.here.runsAt(now)
	return s.resumes > now
}

// send sends one packet if the limits allow it.
func (s *sender) send(now units.Instant) {
	if s.stalled(now) {
		s.sendAt = s.resumes
		return
	}
	size := s.bed.link.Packet
	if s.Stop != 0 && now >= s.Stop {
		s.sendAt = units.Never
		return
	}
	rate, window := s.Controller.Limits(now)
	if s.timedOut {
		window = size
	}
	if window != 0 && units.Bytes(s.flight+1)*size > max(window, size) {
		s.sendAt, s.limited = units.Never, false
		if next := s.Controller.Next(); next != units.Never {
			s.sendAt = max(next, now+1)
		}
		return
	}
	most := s.bed.link.Rate * accessFactor
	if rate == 0 || rate > most {
		rate = most
	}
	behind := units.Duration(0)
	if s.limited {
		behind = catchUp
	}
	s.limited = s.here.Every > 0
	s.paced = max(s.paced, now.Add(-behind)).Add(rate.Time(size))
	s.sendAt = max(s.paced, now)
	if s.next-s.una == uint64(len(s.sentAt)) {
		s.grow()
	}
	at := s.next % uint64(len(s.sentAt))
	s.sentAt[at], s.state[at] = now, outstanding
	s.next++
	s.flight++
	s.record(now).Sent += size
	s.Controller.OnSent(now, size, units.Bytes(s.flight)*size)
	if s.deadline == units.Never {
		s.arm(now)
	}
	s.bed.arrive(s.index, s.next-1)
}

func (s *sender) grow() {
	n := uint64(len(s.sentAt))
	at, state := make([]units.Instant, 2*n), make([]fate, 2*n)
	for q := s.una; q < s.next; q++ {
		at[q%(2*n)], state[q%(2*n)] = s.sentAt[q%n], s.state[q%n]
	}
	s.sentAt, s.state = at, state
}

func (s *sender) arm(now units.Instant) {
	wait := firstTimeout
	if s.srtt > 0 {
		wait = max(2*s.srtt+s.Report, silence)
	}
	if s.timedOut {
		wait = silence
	}
	s.deadline = now.Add(wait)
}

// arrived hears that a packet left the link, on its way to the receiver and back.
func (s *sender) arrived(now units.Instant, w waiting) {
	at := now.Add(s.RTT + s.bed.detour)
	if jitter := s.bed.link.Jitter; jitter > 0 {
		s.comes = max(s.comes, at.Add(units.Duration(s.bed.draw.Int64N(int64(jitter)+1))))
		at = s.comes
	}
	at = s.there.runsAt(at)
	if s.Report > 0 {
		at = units.Instant((int64(at) + int64(s.Report) - 1) / int64(s.Report) * int64(s.Report))
	}
	s.acks.Push(ack{at, w.seq, w.ce, w.trimmed})
}

func (s *sender) feedbackAt() units.Instant {
	if s.acks.Len() == 0 {
		return units.Never
	}
	return max(s.acks.Front().at, s.resumes)
}

// feedback takes all that arrives at now.
func (s *sender) feedback(now units.Instant) {
	if s.stalled(now) {
		return
	}
	size := s.bed.link.Packet
	acked, lost, trimmed := 0, 0, 0
	var rtt units.Duration
	ce := false
	n := uint64(len(s.sentAt))
	for s.acks.Len() > 0 && s.acks.Front().at <= now {
		a := s.acks.Pop()
		if a.seq < s.una || s.state[a.seq%n] == settled {
			continue // taken for lost by a timeout
		}
		for ; s.una < a.seq; s.una++ {
			if s.state[s.una%n] == outstanding {
				lost++
			}
		}
		s.una = a.seq + 1
		if a.trimmed {
			trimmed++
			continue
		}
		// The feedback itself may have waited for the report: that is no part of the path.
		rtt = now.Sub(s.sentAt[a.seq%n])
		acked++
		ce = ce || a.ce
	}
	s.flight -= acked + lost + trimmed
	if lost > 0 {
		s.Controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(lost) * size})
	}
	if trimmed > 0 {
		s.Controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(trimmed) * size, Kind: congestion.LossTrim})
		s.Controller.OnCNP(now)
	}
	if acked > 0 {
		s.timedOut = false
		if s.srtt == 0 {
			s.srtt = rtt
		}
		s.srtt += (rtt - s.srtt) / 8
		if s.least == 0 || rtt < s.least {
			s.least = rtt
		}
		s.record(now).Delivered += units.Bytes(acked) * size
		s.told = congestion.Ack{RTT: rtt, Smoothed: s.srtt, Least: s.least, Acked: units.Bytes(acked) * size, Inflight: units.Bytes(s.flight) * size, ECN: ce}
		s.Controller.OnAck(now, &s.told)
	}
	s.deadline = units.Never
	if s.flight > 0 {
		s.arm(now)
	}
	s.sendAt = min(s.sendAt, max(now, s.paced))
}

// timeout takes all that is on its way for lost.
func (s *sender) timeout(now units.Instant) {
	s.record(now).Timeouts++
	n := uint64(len(s.sentAt))
	for q := s.una; q < s.next; q++ {
		s.state[q%n] = settled
	}
	s.una = s.next
	lost := s.flight
	s.flight, s.timedOut, s.deadline = 0, true, units.Never
	s.Controller.OnLoss(now, congestion.Loss{Bytes: units.Bytes(lost) * s.bed.link.Packet, Kind: congestion.LossTimeout})
	s.sendAt = now
}
