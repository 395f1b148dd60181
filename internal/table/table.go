// SPDX-License-Identifier: Apache-2.0

// Package table is a map from small numbers to pointers that is read without a lock. It grows by
// doubling: making n entries one by one costs O(n) memory, where a slice that is copied for each
// change costs O(n²).
package table

import (
	"iter"
	"sync/atomic"
)

// A Table maps numbers from 0 on to pointers. The zero Table is empty. Any goroutine may read it; those that
// change it must have a lock of their own.
type Table[T any] struct {
	entries atomic.Pointer[[]atomic.Pointer[T]]
}

// Get returns entry i, nil if there is none.
func (t *Table[T]) Get(i uint32) *T {
	if p := t.entries.Load(); p != nil && uint64(i) < uint64(len(*p)) {
		return (*p)[i].Load()
	}
	return nil
}

// Free is the lowest number without an entry.
func (t *Table[T]) Free() uint32 {
	p := t.entries.Load()
	if p == nil {
		return 0
	}
	for i := range *p {
		if (*p)[i].Load() == nil {
			return uint32(i)
		}
	}
	return uint32(len(*p))
}

// Set makes v entry i; nil removes it. A reader that has begun before may miss it.
func (t *Table[T]) Set(i uint32, v *T) {
	p := t.entries.Load()
	if p == nil || uint64(i) >= uint64(len(*p)) {
		p = t.grow(i)
	}
	(*p)[i].Store(v)
}

func (t *Table[T]) grow(i uint32) *[]atomic.Pointer[T] {
	var old []atomic.Pointer[T]
	if p := t.entries.Load(); p != nil {
		old = *p
	}
	bigger := make([]atomic.Pointer[T], max(16, 2*len(old), int(i)+1))
	for j := range old {
		bigger[j].Store(old[j].Load())
	}
	t.entries.Store(&bigger)
	return &bigger
}

// All are the entries by number, as they are when the loop comes to them.
func (t *Table[T]) All() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		p := t.entries.Load()
		if p == nil {
			return
		}
		for i := range *p {
			if v := (*p)[i].Load(); v != nil && !yield(uint32(i), v) {
				return
			}
		}
	}
}
