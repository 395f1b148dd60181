// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
)

// sentQueue holds completions of signalled sends. Posters put them in, the worker takes them out.
type sentQueue struct {
	count atomic.Int64 // entries; lets an idle worker look without the lock

	mu       sync.Mutex
	ring     []sentEntry // a power of two; +checklocks:mu
	head     uint64      // next to take; +checklocks:mu
	tail     uint64      // next to put; +checklocks:mu
	reserved int         // room promised to posts under way; +checklocks:mu
}

// sentEntry is one completion. qpn 0 marks one whose queue pair has been closed.
type sentEntry struct {
	wrid   uint64
	cookie uint32
	qpn    uint32
}

func (s *sentQueue) init(entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring = make([]sentEntry, 1<<bits.Len(uint(entries-1)))
}

// waiting reports whether there is something to take.
func (s *sentQueue) waiting() bool { return s.count.Load() != 0 }

// reserve promises room for up to n completions and returns for how many.
func (s *sentQueue) reserve(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.ring)-int(s.tail-s.head)-s.reserved)
	s.reserved += n
	return n
}

// put stores the completions of the signalled among w, for which with others reserved places are given
// back.
func (s *sentQueue) put(w []backend.Write, cookie, qpn uint32, reserved int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= reserved
	mask := uint64(len(s.ring) - 1)
	for i := range w {
		if w[i].Signaled {
			s.ring[s.tail&mask] = sentEntry{w[i].WRID, cookie, qpn}
			s.tail++
		}
	}
	s.count.Store(int64(s.tail - s.head))
}

// take moves completions to dst.
func (s *sentQueue) take(dst []backend.Completion) int {
	if s.count.Load() == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mask := uint64(len(s.ring) - 1)
	n := 0
	for n < len(dst) && s.head != s.tail {
		e := &s.ring[s.head&mask]
		s.head++
		if e.qpn != 0 {
			dst[n] = backend.Completion{WRID: e.wrid, Cookie: e.cookie, Kind: backend.KindSent}
			n++
		}
	}
	s.count.Store(int64(s.tail - s.head))
	return n
}

// purge drops what a queue pair has left.
func (s *sentQueue) purge(qpn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mask := uint64(len(s.ring) - 1)
	for i := s.head; i != s.tail; i++ {
		if e := &s.ring[i&mask]; e.qpn == qpn {
			e.qpn = 0
		}
	}
}
