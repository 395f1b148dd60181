// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"sync"
	"sync/atomic"
)

// qpnTable finds queue pairs by their number, of 24 bits, in two steps. Lookups take no lock.
type qpnTable struct {
	mu    sync.Mutex
	pages [1 << (24 - pageBits)]atomic.Pointer[qpnPage]
}

const pageBits = 10

type qpnPage [1 << pageBits]atomic.Pointer[queuePair]

// lookup returns the queue pair of a completion, nil when it has been closed since.
func (t *qpnTable) lookup(qpn uint32) *queuePair {
	if page := t.page(qpn).Load(); page != nil {
		return page[qpn&(1<<pageBits-1)].Load()
	}
	return nil
}

func (t *qpnTable) page(qpn uint32) *atomic.Pointer[qpnPage] {
	return &t.pages[qpn>>pageBits&uint32(len(t.pages)-1)]
}

// set enters a queue pair.
func (t *qpnTable) set(qpn uint32, q *queuePair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	page := t.page(qpn)
	if page.Load() == nil {
		page.Store(new(qpnPage))
	}
	page.Load()[qpn&(1<<pageBits-1)].Store(q)
}

// remove takes a queue pair out, if it was entered. Its number may be another one's by then: the kernel gives it away as soon as the queue
// pair is destroyed.
func (t *qpnTable) remove(qpn uint32, q *queuePair) {
	if page := t.page(qpn).Load(); page != nil {
		page[qpn&(1<<pageBits-1)].CompareAndSwap(q, nil)
	}
}
