// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

// Errors of a Requester.
var (
	// ErrFull: InFlight messages are under way.
	ErrFull = errors.New("dcp: eight messages are under way: wait for a completion")
	// ErrSize: a message has 1 to MostPackets packets.
	ErrSize = errors.New("dcp: a message must have 1 to 16383 packets: split it")
	// ErrRetries: a message timed out too often; nothing is sent any more.
	ErrRetries = errors.New("dcp: the peer does not answer: the message timed out too often")
)

// wqe is a message under way.
type wqe struct {
	first   uint32 // PSN of its first packet
	packets uint32
	next    uint32 // the next of this round
	sent    uint32 // how many have been sent in any round
	flight  uint32 // sent in this round and not returned
	round   uint8
}

// entry is what the retransmission queue holds.
type entry struct {
	msn, psn uint32
	round    uint8
}

// Counts are what a Requester counts.
type Counts struct {
	Sent, Repeated uint64
	// Trims are headers that were returned and queued, Stale those of an earlier round, of another message or
	// damaged, Overflows those that found the queue full.
	Trims, Stale, Overflows uint64
	Timeouts, Completed     uint64
}

// A Requester is the sending end.
type Requester struct {
	cfg       *Config
	una, next uint32 // MSN: the oldest without acknowledgement, and the next to be posted
	psn       uint32 // of the next packet to be numbered
	wqes      [InFlight]wqe
	retrans   ring.Ring[entry]
	flight    uint32 // of all messages

	// What is left of this scheduling round: entries fetched from the retransmission queue, and packets.
	batch, quota int
	deadline     units.Instant
	rto          units.Duration
	cc           congestion.Controller
	mtu          units.Bytes
	blocked      bool // the controller's window forbade the last try to send
	err          error

	Counts
}

// NewRequester makes a sending end whose packets are numbered from psn on and messages from msn. path is what a
// controller is told.
func NewRequester(c *Config, path congestion.Path, msn, psn uint32) *Requester {
	r := &Requester{cfg: c, una: msn & mask24, next: msn & mask24, psn: psn & mask24, deadline: units.Never, mtu: max(path.MTU, 1)}
	r.rto = c.RTO
	if c.Congestion != nil {
		r.cc = c.Congestion(path)
	}
	return r
}

// Post adds a message of so many packets, and returns its MSN. It is numbered at once.
func (r *Requester) Post(packets int) (msn uint32, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case packets < 1 || packets > MostPackets:
		return 0, ErrSize
	case r.Outstanding() == InFlight:
		return 0, ErrFull
	}
	msn = r.next
	*r.wqe(msn) = wqe{first: r.psn, packets: uint32(packets)}
	r.psn = (r.psn + uint32(packets)) & mask24
	r.next = (r.next + 1) & mask24
	return msn, nil
}

// Outstanding is how many messages have been posted and not acknowledged.
func (r *Requester) Outstanding() int { return int(after(r.next, r.una)) }

// Err is what ended the requester, if anything did.
func (r *Requester) Err() error { return r.err }

func (r *Requester) wqe(msn uint32) *wqe { return &r.wqes[msn%InFlight] }

// Transmit fills h with the packet to send, false: there is none until the next call of another method. index is
// its place in the message, repeat says that it has been sent before.
func (r *Requester) Transmit(now units.Instant, h *Header) (index uint32, repeat, ok bool) {
	if r.err != nil || !r.window(now) {
		return 0, false, false
	}
	for {
		if r.quota == 0 {
			r.schedule(now)
		}
		for r.batch > 0 {
			r.batch--
			if e := r.retrans.Pop(); r.current(&e) {
				r.stamp(now, h, e.msn, e.psn)
				r.Repeated++
				return (e.psn - r.wqe(e.msn).first) & mask24, true, true
			}
			r.Stale++
		}
		if index, repeat, ok = r.nextInOrder(now, h); ok {
			return index, repeat, true
		}
		r.quota = 0 // nothing new: the next round begins with what has been returned by then
		if r.retrans.Len() == 0 {
			return 0, false, false
		}
	}
}

// nextInOrder sends the next packet of the oldest message that has one left in its round.
func (r *Requester) nextInOrder(now units.Instant, h *Header) (index uint32, repeat, ok bool) {
	for msn := r.una; msn != r.next; msn = (msn + 1) & mask24 {
		w := r.wqe(msn)
		if w.next == w.packets {
			continue
		}
		index = w.next
		w.next++
		if repeat = index < w.sent; repeat {
			r.Repeated++
		} else {
			w.sent++
		}
		r.stamp(now, h, msn, (w.first+index)&mask24)
		return index, repeat, true
	}
	return 0, false, false
}

// schedule begins a round of the NIC's scheduler (section 4.3): entries of the retransmission queue, up to Config.Batch, are
// fetched together, and new packets fill the rest of its quota.
func (r *Requester) schedule(now units.Instant) {
	r.quota = r.cfg.Batch
	r.batch = min(r.quota, r.retrans.Len())
	if w, limited := r.awin(now); limited {
		r.batch = min(r.batch, max(1, int(w)))
	}
}

// awin is what the controller's window leaves, in packets.
func (r *Requester) awin(now units.Instant) (packets units.Bytes, limited bool) {
	if r.cc == nil {
		return 0, false
	}
	_, window := r.cc.Limits(now)
	if window == 0 {
		return 0, false
	}
	return max(0, window/r.mtu-units.Bytes(r.flight)), true
}

// window reports whether the controller allows a packet. One may always be under way.
func (r *Requester) window(now units.Instant) bool {
	w, limited := r.awin(now)
	r.blocked = limited && w == 0 && r.flight > 0
	return !r.blocked
}

// stamp is the sending of a packet.
func (r *Requester) stamp(now units.Instant, h *Header, msn, psn uint32) {
	w := r.wqe(msn)
	*h = Header{MSN: msn, PSN: psn, Round: w.round}
	r.quota = max(0, r.quota-1)
	r.Sent++
	w.flight++
	r.flight++
	if msn == r.una || r.deadline == units.Never {
		r.deadline = now.Add(r.rto)
	}
	if r.cc != nil {
		r.cc.OnSent(now, r.mtu, units.Bytes(r.flight)*r.mtu)
	}
}

// current reports whether an entry still names a packet that is missing: of a message under way, in its round.
func (r *Requester) current(e *entry) bool {
	if d := after(e.msn, r.una); d < 0 || d >= after(r.next, r.una) {
		return false
	}
	w := r.wqe(e.msn)
	return (e.psn-w.first)&mask24 < w.next && (r.cfg.Published || e.round == w.round)
}

// OnReturned takes a header that the receiver has returned. Whether its check is right is the driver's
// business.
func (r *Requester) OnReturned(now units.Instant, h *Header) {
	e := entry{h.MSN & mask24, h.PSN & mask24, h.Round}
	if r.err != nil || !r.current(&e) {
		r.Stale++
		return
	}
	if r.retrans.Len() >= queueMost {
		r.Overflows++ // the timer's business
		return
	}
	r.Trims++
	r.landed(r.wqe(e.msn), 1)
	r.retrans.Push(e)
	if e.msn == r.una {
		r.deadline = now.Add(r.rto)
	}
	if r.cc != nil {
		r.cc.OnLoss(now, congestion.Loss{Bytes: r.mtu, Kind: congestion.LossTrim})
		// The packet met a queue beyond the length from which on each is marked, but marks are drawn when packets leave it: for
		// controllers that hear notifications only, a header is one.
		r.cc.OnCNP(now)
	}
}

// OnAck takes an acknowledgement of all messages before expected, and returns how many that completes, in order.
func (r *Requester) OnAck(now units.Instant, expected uint32) (completed int) {
	n := after(expected&mask24, r.una)
	if r.err != nil || n <= 0 || n > after(r.next, r.una) {
		return 0
	}
	for range n {
		w := r.wqe(r.una)
		if w.sent < w.packets {
			break // of what was not sent: a peer that lies completes nothing
		}
		r.landed(w, w.flight)
		*w = wqe{}
		r.una = (r.una + 1) & mask24
		completed++
	}
	if completed == 0 {
		return 0
	}
	r.Completed += uint64(completed)
	r.rto = r.cfg.RTO
	r.deadline = units.Never
	if r.una != r.next && r.wqe(r.una).sent > 0 {
		r.deadline = now.Add(r.rto)
	}
	return completed
}

// landed takes so many packets of a message, or as many as there are, from those under way.
func (r *Requester) landed(w *wqe, packets uint32) {
	packets = min(packets, w.flight)
	w.flight -= packets
	r.flight -= packets
}

// OnTimer begins a new round of the oldest message when the time is over: all of it is sent again. A message of which something may
// leave as soon as the driver asks, at a pace of more than the timeout for a packet, awaits nothing yet.
func (r *Requester) OnTimer(now units.Instant) {
	if r.err != nil || now < r.deadline || r.una == r.next {
		return
	}
	w := r.wqe(r.una)
	if (w.next < w.packets || r.retrans.Len() > 0) && r.window(now) {
		r.deadline = now.Add(r.rto)
		return
	}
	r.Timeouts++
	if int(w.round) >= r.cfg.Retries {
		r.err = ErrRetries
		r.deadline = units.Never
		return
	}
	w.round++
	r.landed(w, w.flight)
	w.next = 0
	r.rto = min(2*r.rto, max(longestRTO, r.cfg.RTO))
	r.deadline = now.Add(r.rto)
	if r.cc != nil {
		r.cc.OnLoss(now, congestion.Loss{Bytes: r.mtu * units.Bytes(w.packets), Kind: congestion.LossTimeout})
	}
}

// Next is when OnTimer is due; units.Never while nothing is under way.
func (r *Requester) Next() units.Instant { return r.deadline }
