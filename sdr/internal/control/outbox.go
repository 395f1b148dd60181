// SPDX-License-Identifier: Apache-2.0

package control

import (
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// item is a frame of state that is repeated until the peer acknowledges it.
type item struct {
	frame   wire.Frame
	due     units.Instant
	backoff units.Duration
	copies  int8  // spaced copies still to go before repetition begins
	train   int16 // frames of this train still to go
	acked   bool
	// waits: it goes with the next datagram that something else has to be said in, or when it is due.
	waits bool
}

// urgent reports whether a transfer waits for the frame.
func (it *item) urgent() bool {
	switch it.frame.Type {
	case wire.TypeStart, wire.TypeCompleted, wire.TypeCTS, wire.TypeReliable:
		return true
	}
	return false
}

// outbox holds the unacknowledged frames of one type in the order in which they
// were put. It is small (the frames of the messages in flight), so it is scanned.
type outbox struct {
	items []item
	live  int
	next  units.Instant // no item falls due earlier
	// waits: there may be items that wait for a datagram.
	waits bool
}

// put adds f, due at an instant, or replaces the frame with its ID. waits says that it may go before.
func (o *outbox) put(due units.Instant, f wire.Frame, copies int, waits bool) {
	it := item{frame: f, due: due, copies: int8(copies - 1), waits: waits}
	if o.live == 0 {
		o.next = due
	}
	o.next, o.waits = min(o.next, due), o.waits || waits
	for i := range o.items {
		if !o.items[i].acked && o.items[i].frame.ID == f.ID {
			o.items[i] = it
			return
		}
	}
	o.items = append(o.items, it)
	o.live++
}

// ack drops the frames with IDs in [first, first+count).
func (o *outbox) ack(first, count uint64) {
	for i := range o.items {
		it := &o.items[i]
		if !it.acked && it.frame.ID-first < count {
			it.acked = true
			it.frame.Bytes = nil
			o.live--
		}
	}
	o.compact()
}

// compact removes acknowledged frames once they are the larger part.
func (o *outbox) compact() {
	if len(o.items) < 2*o.live+16 {
		if o.live > 0 || len(o.items) == 0 {
			return
		}
	}
	kept := o.items[:0]
	for i := range o.items {
		if !o.items[i].acked {
			kept = append(kept, o.items[i])
		}
	}
	clear(o.items[len(kept):])
	o.items = kept
}

// has reports whether the frame with this ID is still unacknowledged.
func (o *outbox) has(id uint64) bool {
	for i := range o.items {
		if !o.items[i].acked && o.items[i].frame.ID == id {
			return true
		}
	}
	return false
}

// collect appends the frames that are due to b while they fit max. more says
// that some did not fit.
func (o *outbox) collect(now units.Instant, t *timing, b []byte, maxLen int) (out []byte, more bool) {
	if o.live == 0 || now < o.next && !o.waits {
		return b, false
	}
	next := units.Never
	o.waits = false
	for i := range o.items {
		it := &o.items[i]
		if it.acked {
			continue
		}
		if it.due <= now || it.waits {
			n := len(b)
			if b = it.frame.Append(b); len(b) > maxLen {
				o.next, o.waits = now, true
				return b[:n], true
			}
			it.waits = false
			t.reschedule(now, it)
		}
		next = min(next, it.due)
	}
	o.next = next
	return b, false
}
