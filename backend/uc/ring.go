// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// ring is one completion queue of the kernel. It is for sends or for receives only, because the kernel does not say of which kind
// a failed completion is. Unlike a ring.Ring it holds no entries, but counts those of the kernel. A CQ has as many rings as its
// queue pairs need, so that no more is posted than there is room for: rxe loses completions that find no room, and a queue
// pair that fails completes all that it has.
type ring struct {
	cq    *verbs.CQ
	sends bool

	mu sync.Mutex
	// room is how many more requests that complete here may be posted.
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

// retire gives back the room that a closed queue pair had reserved, once none of its completions is left in the ring.
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
