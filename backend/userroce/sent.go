// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/ring"
)

// sentQueue holds completions of signalled sends. Posters put them in, the worker pops them.
type sentQueue struct {
	count atomic.Int64 // entries; lets an idle worker look without the lock

	mu       sync.Mutex
	entries  ring.Ring[sentEntry] // +checklocks:mu
	limit    int                  // of entries; +checklocks:mu
	reserved int                  // how many entries have been promised to posts that are running; +checklocks:mu
}

// sentEntry is one completion.
type sentEntry struct {
	wrid   uint64
	cookie uint32
	qpn    uint32
}

func (s *sentQueue) init(entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = entries
	s.entries.Reserve(entries)
}

// waiting reports whether there is something to pop.
func (s *sentQueue) waiting() bool { return s.count.Load() != 0 }

// reserve promises room for up to n completions and returns for how many it has done so.
func (s *sentQueue) reserve(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.limit-s.entries.Len()-s.reserved)
	s.reserved += n
	return n
}

// put stores the completions of those of w that are signalled, and gives back so many reserved places, theirs among
// them.
func (s *sentQueue) put(w []backend.Write, cookie, qpn uint32, reserved int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= reserved
	for i := range w {
		if w[i].Signaled {
			s.entries.Push(sentEntry{w[i].WRID, cookie, qpn})
		}
	}
	s.count.Store(int64(s.entries.Len()))
}

// pop moves completions to dst.
func (s *sentQueue) pop(dst []backend.Completion) int {
	if s.count.Load() == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(dst), s.entries.Len())
	for i := range n {
		e := s.entries.Pop()
		dst[i] = backend.Completion{WRID: e.wrid, Cookie: e.cookie, Kind: backend.KindSent}
	}
	s.count.Store(int64(s.entries.Len()))
	return n
}

// purge drops the completions that a closed queue pair has left.
func (s *sentQueue) purge(qpn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries.DeleteFunc(func(e *sentEntry) bool { return e.qpn == qpn })
	s.count.Store(int64(s.entries.Len()))
}
