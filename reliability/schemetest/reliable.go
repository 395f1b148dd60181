// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// The rules of sdr's control session (docs/wire.md) for frames that must arrive.
const (
	maxReliable      = 64
	maxReliableBytes = 64 << 10
	reliableCopies   = 3
	firstTrain       = 256
	laterTrain       = 16
	initialRTT       = 20 * units.Millisecond
)

// A session is what the control session of one direction does with frames that must arrive: each is
// repeated until it is acknowledged, and they are handled in order, over all transfers.
type session struct {
	sent     []reliableFrame // by number
	expected int             // the number of the next to be handled
	// unacked and bytes count the frames, and their bytes, that have not been acknowledged.
	unacked, bytes int
}

// A reliableFrame was sent for a transfer.
type reliableFrame struct {
	transfer int
	bytes    []byte
	acked    bool
	// copies is how many copies of this train are still to be sent; backoff is the pause behind it.
	copies, train int
	backoff       units.Duration
}

func (s *session) hasRoom(n int) bool {
	return s.unacked < maxReliable && s.bytes+n <= maxReliableBytes
}

// offer sends the frame that the sending half has made, now or when there is room for it.
func (t *transfer) offer(w *world) {
	switch {
	case t.offered != nil:
		w.fail("a frame that must arrive was made while the one before it waits")
	case len(t.out.Reliable) > w.c.MaxFrame:
		w.fail("a frame of %d bytes that must arrive, but at most %d are allowed", len(t.out.Reliable), w.c.MaxFrame)
	}
	t.offered = slices.Clone(t.out.Reliable)
	t.sendOffered(w)
}

// sendOffered sends the frame that waits, if START is acknowledged and there is room.
func (t *transfer) sendOffered(w *world) {
	s := &w.sessions[index(t.back)]
	if t.offered == nil || w.now < t.startAcked || !s.hasRoom(len(t.offered)) {
		return
	}
	s.sent = append(s.sent, reliableFrame{transfer: int(t.info.ID), bytes: t.offered, copies: reliableCopies - 1})
	s.unacked++
	s.bytes += len(t.offered)
	t.offered, t.touched = nil, true
	w.sendReliable(t.back, len(s.sent)-1)
}

// sendReliable sends frame number n of a direction until it is acknowledged.
func (w *world) sendReliable(back bool, n int) {
	f := &w.sessions[index(back)].sent[n]
	if f.acked {
		return
	}
	w.digest.add(uint64(w.now), uint64(reliableArrives), uint64(n))
	w.digest.bytes(f.bytes)
	at, copies := w.net.arrivals(w.now, packet{control: true, back: back, channel: -1})
	for _, at := range at[:copies] {
		e := event{kind: reliableArrives, transfer: f.transfer, order: uint64(n), frame: slices.Clone(f.bytes)}
		if w.c.Garbage {
			w.garble(&e)
		}
		w.events.push(at, e)
	}
	w.events.push(w.now.Add(f.pause(w.rtt)), event{kind: reliableDue, transfer: f.transfer, order: uint64(n)})
}

// pause is how long after this transmission the next one is due.
func (f *reliableFrame) pause(rtt units.Duration) units.Duration {
	if rtt == 0 {
		rtt = initialRTT
	}
	switch {
	case f.copies > 0:
		f.copies--
		return max(rtt/64, 20*units.Microsecond)
	case f.train > 0:
		f.train--
		return max(rtt/32, 100*units.Microsecond)
	case f.backoff == 0:
		f.backoff, f.train = rtt+max(rtt/8, units.Millisecond), firstTrain
	default:
		f.backoff, f.train = min(2*f.backoff, units.Second), laterTrain
	}
	return f.backoff
}

// onReliable is the arrival of a frame, or of a copy of it.
func (w *world) onReliable(t *transfer, e *event) {
	s, n := &w.sessions[index(t.back)], int(e.order)
	if n > s.expected {
		return // one before it is missing: both will come again
	}
	if n == s.expected {
		s.expected++
		if t.receiver != nil && !t.received && !t.done {
			t.receiverTouched = true
			w.handReliable(t, e.frame)
		}
	}
	at, copies := w.net.arrivals(w.now, packet{control: true, back: !t.back, channel: -1})
	for _, at := range at[:copies] {
		w.events.push(at, event{kind: reliableAcked, transfer: e.transfer, order: e.order})
	}
}

// handReliable gives a frame to the receiving half.
func (w *world) handReliable(t *transfer, frame []byte) {
	r, ok := t.receiver.(scheme.ReliableReceiver)
	if !ok {
		w.fail("transfer %d: a frame that must arrive, and a receiving half that handles none", t.info.ID)
		return
	}
	w.check(t, r.OnReliable(w.clock(), frame))
}

// onReliableAck is the arrival of an acknowledgement: there is room for those that wait.
func (w *world) onReliableAck(back bool, n int) {
	s := &w.sessions[index(back)]
	f := &s.sent[n]
	if f.acked {
		return
	}
	f.acked = true
	s.unacked--
	s.bytes -= len(f.bytes)
	for _, t := range w.transfers {
		if t.back == back {
			t.sendOffered(w)
		}
	}
}
