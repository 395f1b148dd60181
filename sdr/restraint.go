// SPDX-License-Identifier: Apache-2.0

package sdr

import "sync/atomic"

// A restraint says whether to leave something that at times doesn't pay. After it hasn't, it is left a number of times, which is twice as large after
// the next, and smaller by one after each time that it has paid. Its methods may be called from any goroutine.
type restraint struct {
	left, next  atomic.Int32 // how many times it is still left, and will be the next time
	least, most int32        // of next
}

func (r *restraint) init(least, most int32) {
	r.least, r.most = least, most
	r.next.Store(least)
}

// applies reports whether it is to be left.
func (r *restraint) applies() bool { return r.left.Load() > 0 }

// count counts a time that it is left, if it is.
func (r *restraint) count() {
	if n := r.left.Load(); n > 0 {
		r.left.CompareAndSwap(n, n-1)
	}
}

// may reports whether to do it, and counts the time if it is left.
func (r *restraint) may() bool {
	left := r.applies()
	r.count()
	return !left
}

// judge notes whether it has paid.
func (r *restraint) judge(paid bool) {
	n := r.next.Load()
	switch {
	case !paid:
		r.left.Store(n)
		r.next.Store(min(2*n, r.most))
	case n > r.least:
		r.next.Store(n - 1)
	}
}
