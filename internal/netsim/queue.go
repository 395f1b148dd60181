// SPDX-License-Identifier: Apache-2.0

package netsim

// A Queue holds events of a plain value type E in the order of their time, and
// of scheduling among those of the same time. The zero value is empty and ready
// for use. It allocates only when it grows beyond its largest size so far.
//
// It is a heap with four children a node: half as deep as a binary one, and the
// children of a node lie side by side in memory.
type Queue[E any] struct {
	heap []entry[E]
	seq  uint64
}

type entry[E any] struct {
	at  Time
	seq uint64
	e   E
}

func (x *entry[E]) before(y *entry[E]) bool {
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}

// Len is the number of events scheduled.
func (q *Queue[E]) Len() int { return len(q.heap) }

// Next is the time of the earliest event, Never when there is none.
func (q *Queue[E]) Next() Time {
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// Push schedules e.
func (q *Queue[E]) Push(at Time, e E) {
	x := entry[E]{at: at, seq: q.seq, e: e}
	q.seq++
	q.heap = append(q.heap, x)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !x.before(&q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = x
}

// Pop removes and returns the earliest event. The queue must not be empty.
func (q *Queue[E]) Pop() (Time, E) {
	first := q.heap[0]
	last := len(q.heap) - 1
	x := q.heap[last]
	q.heap[last] = entry[E]{}
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(0, x)
	}
	return first.at, first.e
}

// sink puts x into the hole at i, or below.
func (q *Queue[E]) sink(i int, x entry[E]) {
	h := q.heap
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&x) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = x
}

// Remove takes out all events that drop says to. It looks at each.
func (q *Queue[E]) Remove(drop func(E) bool) {
	kept := q.heap[:0]
	for _, x := range q.heap {
		if !drop(x.e) {
			kept = append(kept, x)
		}
	}
	clear(q.heap[len(kept):])
	q.heap = kept
	for i := len(kept) - 1; i >= 0; i-- {
		q.sink(i, kept[i])
	}
}
