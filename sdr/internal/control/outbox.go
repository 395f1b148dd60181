// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"slices"

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
	rank    int // its place in outbox.byID, while compact runs
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

// outbox holds the unacknowledged frames of one type in the order in which they were put. The peer decides how many wait, up to
// thousands, and what it acknowledges how often: so a frame is found by its ID without a look at the others.
type outbox struct {
	items []item
	live  int
	next  units.Instant // no item falls due earlier
	// waits: there may be items that wait for a datagram.
	waits bool
	// byID says where in items the frames are, in the order of their IDs.
	byID []place
	// passed is over how many acknowledged items acknowledgements have gone since they were removed last.
	passed int
}

// A place is where in outbox.items the frame with an ID is.
type place struct {
	id uint64
	at int
}

// find returns where in byID an ID is, or would be.
func (o *outbox) find(id uint64) (i int, ok bool) {
	if n := len(o.byID); n == 0 || o.byID[n-1].id < id {
		return n, false
	}
	return slices.BinarySearchFunc(o.byID, id, func(p place, id uint64) int { return cmp.Compare(p.id, id) })
}

// put adds f, due at an instant, or replaces the frame with its ID, but for the code of an ABORT, which says why: the first one knew. waits says
// that it may go before.
func (o *outbox) put(due units.Instant, f wire.Frame, copies int, waits bool) {
	it := item{frame: f, due: due, copies: int8(copies - 1), waits: waits}
	if o.live == 0 {
		o.next = due
	}
	o.next, o.waits = min(o.next, due), o.waits || waits
	i, ok := o.find(f.ID)
	switch {
	case !ok:
		o.byID = slices.Insert(o.byID, i, place{f.ID, len(o.items)})
	case o.items[o.byID[i].at].acked:
		o.byID[i].at = len(o.items)
	default:
		old := &o.items[o.byID[i].at]
		if f.Type == wire.TypeAbort {
			it.frame.Code = old.frame.Code
		}
		*old = it
		return
	}
	o.items = append(o.items, it)
	o.live++
}

// ack drops the frames with IDs from first on, count of them, and returns how many items it has looked at.
func (o *outbox) ack(first, count uint64) (looked int) {
	i, _ := o.find(first)
	for ; i < len(o.byID) && o.byID[i].id-first < count; i++ {
		looked++
		it := &o.items[o.byID[i].at]
		if it.acked {
			o.passed++
			continue
		}
		it.acked = true
		it.frame.Bytes = nil
		o.live--
	}
	o.compact()
	return looked
}

// compact removes acknowledged frames once they are the larger part, or when as many have been passed as there are frames to look at
// for it.
func (o *outbox) compact() {
	if o.live > 0 && len(o.items) < 2*o.live+16 && o.passed < len(o.items) {
		return
	}
	o.passed = 0
	kept := o.byID[:0]
	for _, p := range o.byID {
		if !o.items[p.at].acked {
			kept = append(kept, p)
			o.items[p.at].rank = len(kept) - 1
		}
	}
	o.byID = kept
	items := o.items[:0]
	for i := range o.items {
		if it := &o.items[i]; !it.acked {
			o.byID[it.rank].at = len(items)
			items = append(items, *it)
		}
	}
	clear(o.items[len(items):])
	o.items = items
}

// again has all frames sent as if they had not been before.
func (o *outbox) again(now units.Instant) {
	for i := range o.items {
		if it := &o.items[i]; !it.acked {
			it.due, it.backoff, it.copies, it.train = now, 0, 0, 0
		}
	}
	o.next = now
}

// has reports whether the frame with this ID is still unacknowledged.
func (o *outbox) has(id uint64) bool {
	i, ok := o.find(id)
	return ok && !o.items[o.byID[i].at].acked
}

// collect appends the frames that are due to b while they fit max, and counts those that are repeated after their copies. more says
// that some did not fit.
func (o *outbox) collect(now units.Instant, t *timing, b []byte, maxLen int, repeated *uint64) (out []byte, more bool) {
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
			if it.backoff > 0 {
				*repeated++
			}
			t.reschedule(now, it)
		}
		next = min(next, it.due)
	}
	o.next = next
	return b, false
}
