// SPDX-License-Identifier: Apache-2.0

package des

import (
	"fmt"
	"math/bits"
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
	// A bucket that is served holds perBucket events in the mean, within a factor of four.
	perBucket = 16
	// window is after how many events the width is judged.
	window = 1 << 15
	// crowded is how many events may wait in the bucket being served before the width is judged
	// at once: pushing into that bucket moves them.
	crowded = 1024
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

	served, buckets int // since the width was last judged
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
	q := &Queue{cur: -1, shift: shift, free: none, heap: c.Heap, fixedShift: c.Shift != 0, fixedRing: c.LogBuckets != 0}
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
		return fmt.Errorf("bucket width of 2^%d ps: the exponent must be between 1 and %d (0: chosen)", c.Shift, MaxShift)
	}
	if c.LogBuckets != 0 && (c.LogBuckets < 6 || c.LogBuckets > 20) {
		return fmt.Errorf("2^%d buckets: the exponent must be between 6 and 20 (0: chosen)", c.LogBuckets)
	}
	return nil
}

// Len is the number of events in the queue.
func (q *Queue) Len() int { return len(q.now) - q.at + q.ring + len(q.far) }

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
	if len(q.now)-q.at >= crowded && !q.fixedShift && q.shift > 1 {
		q.rebucket(max(1, q.shift-min(q.shift, 4)))
		q.Push(e)
		return
	}
	i := len(q.now)
	q.now = append(q.now, e)
	for i > q.at && e.before(&q.now[i-1]) {
		q.now[i] = q.now[i-1]
		i--
	}
	q.now[i] = e
}

// Pop removes and returns the first event, if it is due by until.
func (q *Queue) Pop(until Time) (Event, bool) {
	if q.at < len(q.now) {
		e := q.now[q.at]
		if e.T <= until {
			q.at++
			return e, true
		}
		return Event{}, false
	}
	return q.popNext(until)
}

func (q *Queue) popNext(until Time) (Event, bool) {
	if !q.advance(until) || q.now[0].T > until {
		return Event{}, false
	}
	q.at = 1
	return q.now[0], true
}

// Next is the time of the first event, Never when there is none.
func (q *Queue) Next() Time {
	if q.heap && len(q.far) > 0 {
		return q.far[0].T
	}
	if q.at == len(q.now) && !q.advance(Never) {
		return Never
	}
	return q.now[q.at].T
}

// Ahead returns the event n places behind the next one, if it is in the same bucket: so that the
// data of an event can be touched before it is needed. Events may yet be pushed in front of it.
func (q *Queue) Ahead(n int) (Event, bool) {
	if i := q.at + n; i < len(q.now) {
		return q.now[i], true
	}
	return Event{}, false
}

// Each calls f for every event in the queue, in no particular order.
func (q *Queue) Each(f func(Event)) {
	for _, e := range q.now[q.at:] {
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
	if q.served >= window && !q.fixedShift {
		q.judge()
	}
	next, ok := q.nextBucket()
	if !ok || next > int64(until)>>q.shift {
		return false
	}
	q.cur = next
	q.buckets++
	for len(q.far) > 0 && int64(q.far[0].T)>>q.shift <= next {
		q.now = append(q.now, q.far.pop())
	}
	q.take(next & q.mask)
	sortEvents(q.now)
	return true
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
	for h >= 0 {
		c := &q.chunks[h]
		q.now = append(q.now, c.e[:c.n]...)
		q.ring -= int(c.n)
		next := c.next
		c.next, q.free = q.free, h
		h = next
	}
	q.head[slot] = none
	q.occ[slot>>6] &^= 1 << (slot & 63)
}

// judge changes the width when buckets were four times too full or too empty.
func (q *Queue) judge() {
	mean := q.served / q.buckets
	q.served, q.buckets = 0, 0
	// Twice as wide is twice as full.
	change := bits.Len(uint(mean)) - bits.Len(perBucket)
	if change < 2 && change > -2 {
		return
	}
	want := uint(min(max(int(q.shift)-change, 1), MaxShift))
	if want != q.shift {
		q.rebucket(want)
	}
}

// rebucket moves all events to buckets of another width.
func (q *Queue) rebucket(shift uint) {
	all := append([]Event(nil), q.now[q.at:]...)
	q.now, q.at = q.now[:0], 0
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
	q.served, q.buckets = 0, 0
	for _, e := range all {
		q.Push(e)
	}
}
