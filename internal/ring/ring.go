// SPDX-License-Identifier: Apache-2.0

// Package ring is a first-in, first-out queue in memory that is used again.
package ring

import "math/bits"

// minLen is the length of the first memory.
const minLen = 16

// A Ring is a queue of plain values whose memory grows by doubling and is kept. The zero Ring is empty. It has
// no lock.
type Ring[E any] struct {
	buf        []E // of a power of two
	head, tail uint64
}

// Len is the number of values in the queue.
func (r *Ring[E]) Len() int { return int(r.tail - r.head) }

// Push puts e at the end.
func (r *Ring[E]) Push(e E) {
	if r.Len() == len(r.buf) {
		r.grow(max(minLen, 2*len(r.buf)))
	}
	r.buf[r.tail&uint64(len(r.buf)-1)] = e
	r.tail++
}

// Reserve makes memory for n values at once, so that as many need no more of it.
func (r *Ring[E]) Reserve(n int) {
	if n > len(r.buf) {
		r.grow(1 << bits.Len(uint(n-1)))
	}
}

// grow makes the memory n long, a power of two.
func (r *Ring[E]) grow(n int) {
	bigger := make([]E, n)
	for i := r.head; i != r.tail; i++ {
		bigger[i&uint64(len(bigger)-1)] = r.buf[i&uint64(len(r.buf)-1)]
	}
	r.buf = bigger
}

// At is the i-th value from the front, 0 being the first, which lives until the next Push or Pop.
func (r *Ring[E]) At(i int) *E { return &r.buf[(r.head+uint64(i))&uint64(len(r.buf)-1)] }

// Front is the first value; the Ring must not be empty.
func (r *Ring[E]) Front() *E { return r.At(0) }

// Pop takes the first value out; the Ring must not be empty.
func (r *Ring[E]) Pop() E {
	var zero E
	p := r.At(0)
	e := *p
	*p = zero
	r.head++
	return e
}

// DeleteFunc takes out the values that del says to. The others keep their order.
func (r *Ring[E]) DeleteFunc(del func(*E) bool) {
	kept := 0
	for i := range r.Len() {
		if e := r.At(i); !del(e) {
			*r.At(kept) = *e
			kept++
		}
	}
	var zero E
	for i := kept; i < r.Len(); i++ {
		*r.At(i) = zero
	}
	r.tail = r.head + uint64(kept)
}

// Reset empties the queue and gives its memory up.
func (r *Ring[E]) Reset() { *r = Ring[E]{} }
