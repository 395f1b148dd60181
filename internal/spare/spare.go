// SPDX-License-Identifier: Apache-2.0

// Package spare keeps the memory of what has ended for what comes.
package spare

// most is how many a List keeps.
const most = 64

// A List has values that nobody uses any more, up to 64; what is beyond is left to the garbage collector. The zero value is empty.
// It is for one goroutine at a time.
type List[T any] struct{ all []*T }

// Put keeps v, if there is room.
func (l *List[T]) Put(v *T) {
	if len(l.all) < most {
		l.all = append(l.all, v)
	}
}

// Take returns the value that was put last, as it was put, or nil.
func (l *List[T]) Take() (v *T) {
	if n := len(l.all); n > 0 {
		v, l.all = l.all[n-1], l.all[:n-1]
	}
	return v
}
