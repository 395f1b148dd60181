// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"sync/atomic"
)

const wordBits = 64

// A Map is a row of bits in 64-bit words. The zero Map is empty. All methods
// except Bind may run concurrently; a Map must not be copied once it is in use.
type Map struct {
	words []uint64     // bits at and beyond n may be set, and mean nothing
	n     atomic.Int64 // atomic because a Tracker may shrink it under readers
}

// Words returns how many 64-bit words hold n bits.
func Words(n int) int { return n/wordBits + min(1, n%wordBits) }

// Bind makes m a map of n bits, all clear, in memory that the caller provides
// and must not touch while m is in use. It panics if words is shorter than
// Words(n). It must not run concurrently with any other use of m or of words.
func (m *Map) Bind(words []uint64, n int) {
	if n < 0 || len(words) < Words(n) {
		panic("bitmap: too few words for the map")
	}
	m.words = words[:Words(n):Words(n)]
	clear(m.words)
	m.n.Store(int64(n))
}

// Len returns the number of bits.
func (m *Map) Len() int { return int(m.n.Load()) }

// Word returns bits 64w to 64w+63, the lowest in bit 0. Bits at and beyond Len
// read as 0.
func (m *Map) Word(w int) uint64 { return m.load(w) & below(m.Len()-w*wordBits) }

// Has reports whether bit i is set. No bit outside [0, Len) is.
func (m *Map) Has(i int) bool {
	return uint(i) < uint(m.Len()) && m.load(i/wordBits)>>(uint(i)%wordBits)&1 != 0
}

// Publish sets bits in word w and returns those of them that were set before.
// It is for words that have one writer: it costs one atomic store of the old
// word with bits added, and none when nothing is new. If anyone else writes the
// same word at the same time, by Publish or Or, bits are lost.
func (m *Map) Publish(w int, bits uint64) (dup uint64) {
	return m.publish(w, bits) & bits
}

// publish is Publish, but returns the whole old word. The load is a plain one:
// it is the writer's own word, and the race detector then reports a second
// writer.
func (m *Map) publish(w int, bits uint64) (old uint64) {
	p := &m.words[w]
	old = *p
	if bits&^old != 0 {
		atomic.StoreUint64(p, old|bits)
	}
	return old
}

// Or sets bits in word w and returns the old word. Any number of writers may
// call it. When nothing is new it costs only a load.
func (m *Map) Or(w int, bits uint64) (old uint64) {
	p := &m.words[w]
	if old = atomic.LoadUint64(p); bits&^old == 0 {
		return old
	}
	return atomic.OrUint64(p, bits)
}

// Count returns the number of bits set.
func (m *Map) Count() int { return count(m.words, m.words, m.Len()) }

// AllSet reports whether every bit is set. It is true of an empty map.
func (m *Map) AllSet() bool { return full(m.words, m.words, 0, m.Len()) }

// NextMissing returns the first clear bit at or after from, or Len if there is
// none.
func (m *Map) NextMissing(from int) int { return nextMissing(m.words, m.words, from, m.Len()) }

// NextSet returns the first set bit at or after from, or Len if there is none.
func (m *Map) NextSet(from int) int { return nextSet(m.words, m.words, from, m.Len()) }

func (m *Map) load(w int) uint64 { return atomic.LoadUint64(&m.words[w]) }

// truncate lowers Len to n and reports whether it did: n may have been reached
// before.
func (m *Map) truncate(n int) bool { return lower(&m.n, int64(n)) }

// retract clears bits of word w again and returns how many of them were set.
func (m *Map) retract(w int, stale uint64) int {
	return bits.OnesCount64(atomic.AndUint64(&m.words[w], ^stale) & stale)
}

// lower sets v to n if that makes it smaller, and reports whether it did.
func lower(v *atomic.Int64, n int64) bool {
	for {
		old := v.Load()
		if n >= old {
			return false
		}
		if v.CompareAndSwap(old, n) {
			return true
		}
	}
}

// below returns a word whose lowest n bits are set: all for n >= 64, none for
// n <= 0.
func below(n int) uint64 {
	switch {
	case n >= wordBits:
		return ^uint64(0)
	case n <= 0:
		return 0
	}
	return 1<<uint(n) - 1
}
