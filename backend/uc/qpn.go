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
	p := t.pages[qpn>>pageBits&uint32(len(t.pages)-1)].Load()
	if p == nil {
		return nil
	}
	return p[qpn&(1<<pageBits-1)].Load()
}

// set enters a queue pair, or removes it with nil.
func (t *qpnTable) set(qpn uint32, q *queuePair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	page := &t.pages[qpn>>pageBits&uint32(len(t.pages)-1)]
	if page.Load() == nil {
		page.Store(new(qpnPage))
	}
	page.Load()[qpn&(1<<pageBits-1)].Store(q)
}
