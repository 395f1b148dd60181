// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"slices"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/units"
)

// A readyList is the QPs that their home worker should look at. Anyone may add one; the worker
// pops them all. So a QP that has nothing to do costs nothing.
type readyList struct{ newest atomic.Pointer[QP] }

// add puts q on the list unless it is there already. What made it ready must have been
// stored before.
func (l *readyList) add(q *QP) {
	if q.inReady.Load() || q.inReady.Swap(true) {
		return
	}
	for {
		q.older = l.newest.Load()
		if l.newest.CompareAndSwap(q.older, q) {
			return
		}
	}
}

func (l *readyList) empty() bool { return l.newest.Load() == nil }

// popAll appends the list to qps, the oldest first, and empties it. From then on what is added
// will be popped the next time.
func (l *readyList) popAll(qps []*QP) []*QP {
	first := len(qps)
	for q := l.newest.Swap(nil); q != nil; {
		older := q.older
		q.older = nil
		q.inReady.Store(false)
		qps = append(qps, q)
		q = older
	}
	slices.Reverse(qps[first:])
	return qps
}

// timers are the QPs at home at a worker that want to be looked at some time, a heap with the
// soonest first. They are the worker's alone, and so are QP.due and QP.heapIndex.
type timers []*QP

// next is when the first is due.
func (t timers) next() units.Instant {
	if len(t) == 0 {
		return units.Never
	}
	return t[0].due
}

// set makes q due at an instant, units.Never for not at all.
func (t *timers) set(q *QP, due units.Instant) {
	switch {
	case q.heapIndex == 0 && due == units.Never:
		return
	case q.heapIndex == 0:
		q.due = due
		*t = append(*t, q)
		t.up(len(*t) - 1)
	case due == units.Never:
		t.remove(q.heapIndex - 1)
	default:
		q.due = due
		t.down(t.up(q.heapIndex - 1))
	}
}

// popDue removes those that are due at now, and gives them to f.
func (t *timers) popDue(now units.Instant, f func(*QP)) {
	for len(*t) > 0 && (*t)[0].due <= now {
		q := (*t)[0]
		t.remove(0)
		f(q)
	}
}

func (t *timers) remove(i int) {
	h := *t
	last := len(h) - 1
	h[i].heapIndex = 0
	h[i], h[last] = h[last], nil
	*t = h[:last]
	if i < last {
		t.down(t.up(i))
	}
}

// up moves the QP at i towards the front as far as it must, and returns where it is.
func (t *timers) up(i int) int {
	h := *t
	q := h[i]
	for i > 0 && q.due < h[(i-1)/2].due {
		h[i] = h[(i-1)/2]
		h[i].heapIndex = i + 1
		i = (i - 1) / 2
	}
	h[i] = q
	q.heapIndex = i + 1
	return i
}

// down moves the QP at i away from the front as far as it must.
func (t *timers) down(i int) {
	h := *t
	q := h[i]
	for {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1].due < h[c].due {
			c++
		}
		if c >= len(h) || q.due <= h[c].due {
			break
		}
		h[i] = h[c]
		h[i].heapIndex = i + 1
		i = c
	}
	h[i] = q
	q.heapIndex = i + 1
}
