// SPDX-License-Identifier: Apache-2.0

package userroce

import "sync/atomic"

// epoch shows others whether a worker is inside the part of Poll that looks entries up and writes user
// memory: it is odd inside. Its owner changes it twice for each Poll.
//
// A worker that finds an entry has entered before it looked; a revoker hides the entry before it reads
// the epochs. Go's atomics are sequentially consistent, so either the worker finds nothing, or the
// revoker sees the odd epoch and waits until it has changed.
type epoch struct{ v atomic.Uint64 }

func (e *epoch) enter()       { e.v.Add(1) }
func (e *epoch) leave()       { e.v.Add(1) }
func (e *epoch) inside() bool { return e.v.Load()&1 != 0 }

// fence remembers the workers that were inside when an entry was hidden.
type fence struct {
	seen    [MaxWorkers]uint64
	waiting uint8 // has a bit for each worker that is still to be waited for
}

// raise remembers the workers that are inside now. It is called after the entry has been hidden.
func (f *fence) raise(workers []*receiver) {
	f.waiting = 0
	for i, w := range workers {
		if v := w.epoch.v.Load(); v&1 != 0 {
			f.seen[i] = v
			f.waiting |= 1 << i
		}
	}
}

// down reports whether all workers that were inside then have left since.
func (f *fence) down(workers []*receiver) bool {
	for i, w := range workers {
		if f.waiting>>i&1 != 0 && w.epoch.v.Load() != f.seen[i] {
			f.waiting &^= 1 << i
		}
	}
	return f.waiting == 0
}
