// SPDX-License-Identifier: Apache-2.0

package sim

// A ring is a first-in, first-out queue of plain values that keeps its memory.
type ring[E any] struct {
	buf  []E // power of two long
	head int
	n    int
}

func (r *ring[E]) push(e E) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = e
	r.n++
}

func (r *ring[E]) grow() {
	b := make([]E, max(16, 2*len(r.buf)))
	for i := range r.n {
		b[i] = *r.at(i)
	}
	r.buf, r.head = b, 0
}

// at returns the i-th value from the front, valid until the next push or pop.
func (r *ring[E]) at(i int) *E { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *ring[E]) pop() E {
	var zero E
	e := r.buf[r.head]
	r.buf[r.head] = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return e
}

// remove takes out what drop says to, keeping the order of the rest.
func (r *ring[E]) remove(drop func(*E) bool) {
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
