// SPDX-License-Identifier: Apache-2.0

package virtual

// A Ring is a first-in, first-out queue of plain values that keeps its memory.
type Ring[E any] struct {
	buf  []E // power of two long
	head int
	n    int
}

// Len is the number of values in the queue.
func (r *Ring[E]) Len() int { return r.n }

// Push appends e.
func (r *Ring[E]) Push(e E) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = e
	r.n++
}

func (r *Ring[E]) grow() {
	b := make([]E, max(16, 2*len(r.buf)))
	for i := range r.n {
		b[i] = *r.at(i)
	}
	r.buf, r.head = b, 0
}

// at returns the i-th value from the front, valid until the next push or pop.
func (r *Ring[E]) at(i int) *E { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// Pop takes the first value. There must be one.
func (r *Ring[E]) Pop() E {
	var zero E
	e := r.buf[r.head]
	r.buf[r.head] = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return e
}

// Remove takes out what drop says to, keeping the order of the rest.
func (r *Ring[E]) Remove(drop func(*E) bool) {
	kept := 0
	for i := range r.n {
		if e := r.at(i); !drop(e) {
			*r.at(kept) = *e
			kept++
		}
	}
	var zero E
	for i := kept; i < r.n; i++ {
		*r.at(i) = zero
	}
	r.n = kept
}
