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
	// empty says that the present Poll has found nothing more. It belongs to the goroutine that polls.
	empty bool

	mu sync.Mutex
	// room is how many more requests that complete here may be posted.
	room int // +checklocks:mu
	// retired are requests of closed queue pairs whose completions may still lie in the ring; they
	// become room when it has been polled empty.
	retired int // +checklocks:mu
	// datagrams is how many datagrams were posted since a poll that found the ring empty began, and maxDatagrams how many may
	// be. Of datagrams nobody knows how many are under way: soft devices free their places without a completion, and once
	// the queue pair has failed they complete each that is still posted.
	datagrams, maxDatagrams int // +checklocks:mu
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

// allowDatagrams lets n more datagrams be posted between two polls; n is negative when a queue pair is closed.
func (r *ring) allowDatagrams(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.maxDatagrams += n
}

// takeDatagram reports whether a datagram may be posted, and counts it.
func (r *ring) takeDatagram() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.datagrams >= r.maxDatagrams {
		return false
	}
	r.datagrams++
	return true
}

// poll takes completions. When it finds the ring empty, those of queue pairs that were closed before it began are gone, and of the
// datagrams posted before only those are left that are in a send queue.
func (r *ring) poll(dst []verbs.WC) (int, error) {
	r.mu.Lock()
	retired, datagrams := r.retired, r.datagrams
	r.mu.Unlock()
	n, err := r.cq.Poll(dst)
	if r.empty = n < len(dst); r.empty && retired+datagrams > 0 {
		r.mu.Lock()
		r.retired -= retired
		r.room += retired
		r.datagrams -= datagrams
		r.mu.Unlock()
	}
	return n, err
}
