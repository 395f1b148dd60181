// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// ring is one completion queue of the kernel, for sends or for receives (it holds no entries, as ring.Ring does, but
// counts the kernel's): of a failed completion the
// kernel does not say which it was. A CQ has as many as its queue pairs need: what is posted never
// exceeds what fits, for rxe loses what doesn't, and a queue pair that fails completes all it has.
type ring struct {
	cq    *verbs.CQ
	sends bool

	mu sync.Mutex
	// room is how many more requests may be posted that complete here.
	room int // +checklocks:mu
	// retired are requests of closed queue pairs whose completions may still lie in the ring; they
	// become room when it has been polled empty.
	retired int // +checklocks:mu
}

// reserve takes room for n requests.
func (r *ring) reserve(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.room < n {
		return false
	}
	r.room -= n
	return true
}

// retire gives back what a closed queue pair had reserved, once no completion of it is left.
func (r *ring) retire(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired += n
}

// poll takes completions. Those of queue pairs that were closed before it began are gone when it
// finds the ring empty.
func (r *ring) poll(dst []verbs.WC) (int, error) {
	r.mu.Lock()
	retired := r.retired
	r.mu.Unlock()
	n, err := r.cq.Poll(dst)
	if retired > 0 && n < len(dst) {
		r.mu.Lock()
		r.retired -= retired
		r.room += retired
		r.mu.Unlock()
	}
	return n, err
}
