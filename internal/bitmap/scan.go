// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"sync/atomic"
)

// The scans below look at the union of two rows of words, a and b. A single
// map passes its words twice: the second load hits the first-level cache, and
// there is one loop to get right instead of two.

func union(a, b []uint64, w int) uint64 {
	return atomic.LoadUint64(&a[w]) | atomic.LoadUint64(&b[w])
}

func count(a, b []uint64, n int) int {
	sum := 0
	for w := range Words(n) {
		sum += bits.OnesCount64(union(a, b, w) & below(n-w*wordBits))
	}
	return sum
}

// full reports whether all bits in [from, to) are set. It looks from the end:
// packets mostly arrive in order, so that is where one is missing.
func full(a, b []uint64, from, to int) bool {
	if from >= to {
		return true
	}
	firstWord := from / wordBits
	for w := (to - 1) / wordBits; w >= firstWord; w-- {
		want := below(to-w*wordBits) &^ below(from-w*wordBits)
		if union(a, b, w)&want != want {
			return false
		}
	}
	return true
}

// nextMissing returns the first clear bit in [from, n), or n.
func nextMissing(a, b []uint64, from, n int) int {
	from = max(from, 0)
	skip := below(from % wordBits)
	for w := from / wordBits; w*wordBits < n; w++ {
		if x := ^(union(a, b, w) | skip); x != 0 {
			return min(w*wordBits+bits.TrailingZeros64(x), n)
		}
		skip = 0
	}
	return n
}

// nextSet returns the first set bit in [from, n), or n.
func nextSet(a, b []uint64, from, n int) int {
	from = max(from, 0)
	skip := below(from % wordBits)
	for w := from / wordBits; w*wordBits < n; w++ {
		if x := union(a, b, w) &^ skip; x != 0 {
			return min(w*wordBits+bits.TrailingZeros64(x), n)
		}
		skip = 0
	}
	return n
}
