// SPDX-License-Identifier: Apache-2.0

package des

import (
	"math/bits"
	"slices"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Config says how a Queue works inside. It changes no result, only the speed; the zero value adapts
// by itself.
type Config struct {
	// Heap makes the queue one heap, to compare with.
	Heap bool
	// Shift fixes the width of a bucket at 2^Shift ps, 1 to MaxShift; 0: the queue chooses, and
	// chooses again when the buckets are four times too full or too empty.
	Shift uint
	// LogBuckets makes the ring 2^LogBuckets buckets long, 6 to 20; 0: the queue chooses whenever it
	// chooses the width, so that most events find a place in the ring.
	LogBuckets uint
}

// MaxShift is the widest bucket: 2^40 ps are a second.
const MaxShift = 40

const (
	firstShift      = 10
	firstLogBuckets = 13
	leastLogBuckets = 10
	mostLogBuckets  = 18
	// A bucket holds perBucket events in the mean over time, within a factor of four.
	perBucket = 16
	// The width is judged after window events, or after as many as windowTurns times those that are
	// pending: traffic comes in waves of a round trip, and what one part of a wave asks for the next
	// would undo, at the cost of moving all events.
	window      = 1 << 15
	windowTurns = 8
	// mostMoves bounds what a push into the bucket being served moves; beyond it there is a heap.
	mostMoves = 32
)

// chunk is a part of a bucket: 256 bytes.
type chunk struct {
	e    [15]Event
	n    uint32
	next int32 // in the bucket, or in the free list; none ends it
	_    uint64
}

const none = -1

// A Queue holds events and gives them back in their order. Make it with NewQueue.
type Queue struct {
	now   []Event // the bucket being served, sorted; what lies before at has been popped
	at    int
	near  heap  // events of that bucket, or before it, which were pushed too far from its end
	cur   int64 // number of the bucket being served: T >> shift
	shift uint
	mask  int64 // buckets in the ring, less one
	head  []int32
	occ   []uint64 // a bit for each bucket that is not empty

	chunks []chunk
	free   int32
	ring   int // events in the ring
	far    heap
	heap   bool
	// The Config fixes the width, or the length of the ring.
	fixedShift, fixedRing bool

	served int  // events since the width was last judged
	window int  // after how many it is judged next
	judged Time // when that was

	seen uint32 // see peek: it keeps the compiler from leaving reads out
}

// NewQueue makes an empty queue. c must be within its ranges; see Config.Validate.
func NewQueue(c Config) *Queue {
	logn, shift := c.LogBuckets, c.Shift
	if logn == 0 {
		logn = firstLogBuckets
	}
	if shift == 0 {
		shift = firstShift
	}
	q := &Queue{cur: -1, window: window, shift: shift, free: none, heap: c.Heap, fixedShift: c.Shift != 0, fixedRing: c.LogBuckets != 0}
	q.makeRing(logn)
	return q
}

func (q *Queue) makeRing(logn uint) {
	q.mask = 1<<logn - 1
	q.head, q.occ = make([]int32, 1<<logn), make([]uint64, 1<<logn/64)
	for i := range q.head {
		q.head[i] = none
	}
}

// Validate says what is wrong with c, if anything.
func (c Config) Validate() error {
	if c.Shift > MaxShift {
		return operr.New("configure", "event queue", "bucket width of 2^%d ps: the exponent must be between 1 and %d (0: chosen)", c.Shift, MaxShift)
	}
	if c.LogBuckets != 0 && (c.LogBuckets < 6 || c.LogBuckets > 20) {
		return operr.New("configure", "event queue", "2^%d buckets: the exponent must be between 6 and 20 (0: chosen)", c.LogBuckets)
	}
	return nil
}

// Len is the number of events in the queue.
func (q *Queue) Len() int { return len(q.now) - q.at + len(q.near) + q.ring + len(q.far) }

// Push schedules e. e.T must be neither negative nor earlier than the last event popped.
func (q *Queue) Push(e Event) {
	b := int64(e.T) >> (q.shift & 63)
	// One comparison for "after the bucket being served and within the ring".
	if uint64(b-q.cur-1) >= uint64(q.mask) || q.heap {
		q.pushOutside(b, e)
		return
	}
	q.ring++
	slot := b & q.mask
	h := q.head[slot]
	if h >= 0 {
		c := &q.chunks[h]
		if n := c.n; n < uint32(len(c.e)) {
			c.e[n] = e
			c.n = n + 1
			return
		}
	}
	q.grow(slot, h, e)
}

// grow puts a chunk with e in front of a bucket.
func (q *Queue) grow(slot int64, next int32, e Event) {
	h := q.free
	if h < 0 {
		h = int32(len(q.chunks))
		q.chunks = append(q.chunks, chunk{})
	} else {
		q.free = q.chunks[h].next
	}
	c := &q.chunks[h]
	c.e[0], c.n, c.next = e, 1, next
	q.head[slot] = h
	q.occ[slot>>6] |= 1 << (slot & 63)
}

// pushOutside puts e into the bucket being served, or into the heap.
func (q *Queue) pushOutside(b int64, e Event) {
	if q.heap || b > q.cur {
		q.far.push(e)
		return
	}
	first := max(q.at, len(q.now)-mostMoves)
	if first > q.at && e.before(&q.now[first]) {
		q.near.push(e)
		return
	}
	i := len(q.now)
	q.now = append(q.now, e)
	for i > first && e.before(&q.now[i-1]) {
		q.now[i] = q.now[i-1]
		i--
	}
	q.now[i] = e
}

// Pop removes and returns the first event, if it is due by until.
func (q *Queue) Pop(until Time) (Event, bool) {
	if q.at < len(q.now) && len(q.near) == 0 {
		if e := q.now[q.at]; e.T <= until {
			q.at++
			return e, true
		}
		return Event{}, false
	}
	return q.popNext(until)
}

func (q *Queue) popNext(until Time) (Event, bool) {
	if len(q.near) > 0 && (q.at == len(q.now) || q.near[0].before(&q.now[q.at])) {
		if q.near[0].T > until {
			return Event{}, false
		}
		return q.near.pop(), true
	}
	if q.at == len(q.now) && !q.advance(until) || q.now[q.at].T > until {
		return Event{}, false
	}
	q.at++
	return q.now[q.at-1], true
}

// Upcoming is what comes after the event popped last, in order, as far as the queue has it sorted: a
// hint, for an event that is pushed may come before. It is valid until the queue is used again.
func (q *Queue) Upcoming() []Event { return q.now[q.at:] }

// Next is the time of the first event, Never when there is none.
func (q *Queue) Next() Time {
	next := Never
	if q.heap && len(q.far) > 0 {
		next = q.far[0].T
	}
	if len(q.near) > 0 {
		next = min(next, q.near[0].T)
	} else if q.at == len(q.now) && (q.heap || !q.advance(Never)) {
		return next
	}
	if q.at < len(q.now) {
		next = min(next, q.now[q.at].T)
	}
	return next
}

// Each calls f for every event in the queue, in no particular order.
func (q *Queue) Each(f func(Event)) {
	for _, e := range q.now[q.at:] {
		f(e)
	}
	for _, e := range q.near {
		f(e)
	}
	for _, h := range q.head {
		for ; h >= 0; h = q.chunks[h].next {
			for _, e := range q.chunks[h].e[:q.chunks[h].n] {
				f(e)
			}
		}
	}
	for _, e := range q.far {
		f(e)
	}
}

// advance serves the next bucket that is not empty, unless it begins after until. The one that was
// being served must be used up.
func (q *Queue) advance(until Time) bool {
	q.served += len(q.now)
	q.now, q.at = q.now[:0], 0
	if q.heap {
		if len(q.far) == 0 || q.far[0].T > until {
			return false // taken out only to be popped: an earlier one may yet be pushed
		}
		q.now = append(q.now, q.far.pop())
		return true
	}
	if q.served >= q.window && !q.fixedShift {
		q.judge()
	}
	next, ok := q.nextBucket()
	if !ok || next > int64(until)>>q.shift {
		return false
	}
	q.cur = next
	for len(q.far) > 0 && int64(q.far[0].T)>>q.shift <= next {
		q.now = append(q.now, q.far.pop())
	}
	q.take(next & q.mask)
	q.peek((next + 1) & q.mask)
	sortEvents(q.now)
	return true
}

// peek reads the bucket that is likely to be next, which was filled long ago, while the present one is sorted.
func (q *Queue) peek(slot int64) {
	if h := q.head[slot]; h >= 0 {
		c := &q.chunks[h]
		q.seen += c.n + c.e[0].Key + c.e[4].Key + c.e[8].Key
	}
}

// nextBucket finds the first bucket, in the ring or in the heap, that is not empty.
func (q *Queue) nextBucket() (next int64, ok bool) {
	if q.ring > 0 {
		first := q.cur + 1
		s := first & q.mask
		w := int(s >> 6)
		m := q.occ[w] &^ (1<<(uint(s)&63) - 1)
		for m == 0 {
			if w++; w == len(q.occ) {
				w = 0
			}
			m = q.occ[w]
		}
		slot := int64(w)<<6 + int64(bits.TrailingZeros64(m))
		next, ok = first+(slot-s)&q.mask, true
	}
	if len(q.far) > 0 {
		if b := int64(q.far[0].T) >> q.shift; !ok || b < next {
			next, ok = b, true
		}
	}
	return next, ok
}

// take moves a bucket of the ring to now.
func (q *Queue) take(slot int64) {
	h := q.head[slot]
	if h < 0 {
		return
	}
	n := 0
	for i := h; i >= 0; i = q.chunks[i].next {
		n += int(q.chunks[i].n)
	}
	q.ring -= n
	// The last chunk comes first in the list: what was pushed first goes first.
	n += len(q.now)
	q.now = slices.Grow(q.now, n-len(q.now))[:n]
	for h >= 0 {
		c := &q.chunks[h]
		n -= int(c.n)
		copy(q.now[n:], c.e[:c.n])
		next := c.next
		c.next, q.free = q.free, h
		h = next
	}
	q.head[slot] = none
	q.occ[slot>>6] &^= 1 << (slot & 63)
}

// judge changes the width when buckets are four times too full or too empty, by the time that the
// last events took. Counting what buckets hold would not do: events of one instant stay together
// however narrow a bucket is.
func (q *Queue) judge() {
	now := Time(q.cur << q.shift)
	gap := (now - q.judged) * perBucket / Time(q.served)
	q.served, q.judged, q.window = 0, now, max(window, windowTurns*q.Len())
	want := min(max(bits.Len64(uint64(gap)), 1), MaxShift)
	if change := want - int(q.shift); change >= 2 || change <= -2 {
		q.rebucket(uint(want))
	}
}

// rebucket moves all events to buckets of another width.
func (q *Queue) rebucket(shift uint) {
	all := append([]Event(nil), q.now[q.at:]...)
	all = append(all, q.near...)
	q.now, q.at, q.near = q.now[:0], 0, q.near[:0]
	for slot := range q.head {
		q.take(int64(slot))
	}
	all = append(all, q.now...)
	all = append(all, q.far...)
	q.now, q.far = q.now[:0], q.far[:0]
	if !q.fixedRing {
		// Events reach four times as far as they would if they were spread evenly.
		if logn := uint(min(max(bits.Len(uint(4*len(all)/perBucket)), leastLogBuckets), mostLogBuckets)); 1<<logn != len(q.head) {
			q.makeRing(logn)
		}
	}
	// The first bucket that is not yet over stays the next to be served: its time is not before the
	// last event popped, so that later events still go after it.
	start := q.cur << q.shift
	for _, e := range all {
		start = min(start, int64(e.T))
	}
	q.shift = shift
	q.cur = max(start>>shift-1, -1)
	for _, e := range all {
		q.Push(e)
	}
}
