// SPDX-License-Identifier: Apache-2.0

package linkemu

import "github.com/sdr-rdma/go-sdr/backend"

// A sentRing holds the completions of sends until they are polled. It grows to
// at most the SendDepths of its QPs together.
type sentRing struct {
	buf  []sentEntry // power of two long
	head int
	n    int
}

type sentEntry struct {
	backend.Completion
	qp *queuePair
}

func (r *sentRing) empty() bool { return r.n == 0 }

func (r *sentRing) put(e sentEntry) {
	if r.n == len(r.buf) {
		b := make([]sentEntry, max(64, 2*r.n))
		for i := range r.n {
			b[i] = *r.at(i)
		}
		r.buf, r.head = b, 0
	}
	*r.at(r.n) = e
	r.n++
}

func (r *sentRing) at(i int) *sentEntry { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *sentRing) take(dst []backend.Completion) int {
	n := min(len(dst), r.n)
	for i := range n {
		e := r.at(i)
		dst[i] = e.Completion
		*e = sentEntry{}
	}
	r.head += n
	r.n -= n
	return n
}

// forget takes out the completions of q.
func (r *sentRing) forget(q *queuePair) {
	kept := 0
	for i := range r.n {
		if e := *r.at(i); e.qp != q {
			*r.at(kept) = e
			kept++
		}
	}
	for i := kept; i < r.n; i++ {
		*r.at(i) = sentEntry{}
	}
	r.n = kept
}
