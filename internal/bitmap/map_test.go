// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// edgeLens are lengths around the word boundaries.
var edgeLens = []int{0, 1, 2, 63, 64, 65, 127, 128, 129, 300}

func newMap(n int) *Map {
	m := new(Map)
	m.Bind(make([]uint64, Words(n)), n)
	return m
}

func TestWords(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 63: 1, 64: 1, 65: 2, 128: 2, 129: 3} {
		if got := Words(n); got != want {
			t.Errorf("Words(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestZeroMapIsEmpty(t *testing.T) {
	var m Map
	if m.Len() != 0 || m.Count() != 0 || !m.AllSet() || m.NextMissing(0) != 0 || m.NextSet(0) != 0 || m.Has(0) {
		t.Error("zero Map is not empty")
	}
}

func TestBindClears(t *testing.T) {
	words := []uint64{^uint64(0), ^uint64(0), ^uint64(0)}
	var m Map
	m.Bind(words, 70)
	if m.Count() != 0 || m.Len() != 70 {
		t.Errorf("Count %d, Len %d after Bind, want 0, 70", m.Count(), m.Len())
	}
	if words[2] != ^uint64(0) {
		t.Error("Bind cleared a word beyond the map")
	}
}

func TestBindPanicsOnShortMemory(t *testing.T) {
	wantPanic(t, func() { new(Map).Bind(make([]uint64, 1), 65) })
	wantPanic(t, func() { new(Map).Bind(nil, -1) })
	wantPanic(t, func() { new(Tracker).Bind(NewGeometry(65, 1, 1), make([]uint64, 5)) })
}

func wantPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func TestPublishReportsDuplicates(t *testing.T) {
	m := newMap(128)
	if dup := m.Publish(1, 0b0110); dup != 0 {
		t.Errorf("first Publish: dup %b", dup)
	}
	if dup := m.Publish(1, 0b1100); dup != 0b0100 {
		t.Errorf("second Publish: dup %b, want 100", dup)
	}
	if got := m.Word(1); got != 0b1110 {
		t.Errorf("word %b, want 1110", got)
	}
}

func TestOrReturnsOldWord(t *testing.T) {
	m := newMap(64)
	for i, c := range []struct{ bits, old uint64 }{{0b01, 0}, {0b10, 0b01}, {0b11, 0b11}, {0, 0b11}} {
		if old := m.Or(0, c.bits); old != c.old {
			t.Errorf("step %d: Or(%b) = %b, want %b", i, c.bits, old, c.old)
		}
	}
}

// Bits beyond Len mean nothing, even if someone sets them.
func TestBitsBeyondLenAreInvisible(t *testing.T) {
	m := newMap(70)
	m.Or(1, ^uint64(0))
	if m.Word(1) != 1<<6-1 || m.Count() != 6 || m.Has(70) || m.Has(127) || m.Has(-1) || !m.Has(69) {
		t.Errorf("word %x, count %d", m.Word(1), m.Count())
	}
	m.Or(0, ^uint64(0))
	if !m.AllSet() || m.NextMissing(0) != 70 {
		t.Errorf("AllSet %v, NextMissing %d", m.AllSet(), m.NextMissing(0))
	}
}

// naive is the model of a map: one bool for each bit.
type naive []bool

func (v naive) next(from int, want bool) int {
	for i := max(from, 0); i < len(v); i++ {
		if v[i] == want {
			return i
		}
	}
	return len(v)
}

func (v naive) count() (n int) {
	for _, set := range v {
		if set {
			n++
		}
	}
	return n
}

// bitset is what Map and Pair have in common.
type bitset interface {
	Len() int
	Word(w int) uint64
	Has(i int) bool
	Count() int
	AllSet() bool
	NextMissing(from int) int
	NextSet(from int) int
}

func compare(t *testing.T, rng *rand.Rand, got bitset, want naive) {
	t.Helper()
	if got.Len() != len(want) || got.Count() != want.count() || got.AllSet() != (want.count() == len(want)) {
		t.Fatalf("Len %d, Count %d, AllSet %v; want %d bits, %d set", got.Len(), got.Count(), got.AllSet(), len(want), want.count())
	}
	for i := range want {
		if got.Has(i) != want[i] || got.Word(i/64)>>(i%64)&1 != 0 != want[i] {
			t.Fatalf("bit %d: Has %v, Word %x, want %v", i, got.Has(i), got.Word(i/64), want[i])
		}
	}
	for i := len(want); i < 64*Words(len(want)); i++ {
		if got.Has(i) || got.Word(i/64)>>(i%64)&1 != 0 {
			t.Fatalf("bit %d of %d: Has %v, Word %x", i, len(want), got.Has(i), got.Word(i/64))
		}
	}
	for range 8 {
		from := rng.IntN(len(want)+4) - 2
		if g, w := got.NextMissing(from), want.next(from, false); g != w {
			t.Fatalf("NextMissing(%d) = %d, want %d", from, g, w)
		}
		if g, w := got.NextSet(from), want.next(from, true); g != w {
			t.Fatalf("NextSet(%d) = %d, want %d", from, g, w)
		}
	}
}

func TestMapAgainstModel(t *testing.T) {
	rng := newRand(t)
	for _, n := range append(edgeLens, rng.IntN(1000), rng.IntN(1000)) {
		m, want := newMap(n), make(naive, n)
		compare(t, rng, m, want)
		for range 3 * n {
			i := rng.IntN(n)
			bit := uint64(1) << (i % 64)
			var was bool
			if rng.IntN(2) == 0 {
				was = m.Publish(i/64, bit) != 0
			} else {
				was = m.Or(i/64, bit)&bit != 0
			}
			if was != want[i] {
				t.Fatalf("n %d, bit %d: was %v, want %v", n, i, was, want[i])
			}
			want[i] = true
			if rng.IntN(16) == 0 {
				compare(t, rng, m, want)
			}
		}
		compare(t, rng, m, want)
	}
}

func TestPairAgainstModel(t *testing.T) {
	rng := newRand(t)
	for _, n := range append(edgeLens, rng.IntN(1000), rng.IntN(1000)) {
		var p Pair
		p.First.Bind(make([]uint64, Words(n)), n)
		p.Repair.Bind(make([]uint64, Words(n)), n)
		want := make(naive, n)
		for range 3 * n {
			i := rng.IntN(n)
			if rng.IntN(2) == 0 {
				p.First.Publish(i/64, 1<<(i%64))
			} else {
				p.Repair.Or(i/64, 1<<(i%64))
			}
			want[i] = true
			if rng.IntN(16) == 0 {
				compare(t, rng, &p, want)
			}
		}
		compare(t, rng, &p, want)
	}
}

// Exactly one of many writers of a bit is told that it was new, and no bit is lost.
func TestConcurrentOr(t *testing.T) {
	const n, writers = 10000, 4
	m := newMap(n)
	var turned atomic.Int64
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range n {
				i = (i + g*n/writers/64) % n
				if bit := uint64(1) << (i % 64); m.Or(i/64, bit)&bit == 0 {
					turned.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if turned.Load() != n || !m.AllSet() {
		t.Errorf("turned %d of %d bits, AllSet %v", turned.Load(), n, m.AllSet())
	}
}

// A scan of a map that fills up meanwhile never reports a bit that was set
// before it began as missing, nor one that is still to be set as set.
func TestScanWhileFilling(t *testing.T) {
	const n = 1 << 14
	m := newMap(n)
	var filled atomic.Int64 // bits below it are set
	var wg sync.WaitGroup
	wg.Go(func() {
		for w := range n / 64 {
			for b := range 64 {
				m.Publish(w, 1<<b)
				filled.Store(int64(w*64 + b + 1))
			}
		}
	})
	for done := false; !done; {
		before := int(filled.Load())
		done = before == n
		missing := m.NextMissing(0)
		if after := int(filled.Load()); missing < before || missing > min(after+1, n) {
			t.Fatalf("bit %d is missing, with %d set before the scan and %d after it", missing, before, after)
		}
	}
	wg.Wait()
}

func TestBelow(t *testing.T) {
	for _, n := range []int{-100, -1, 0, 1, 63, 64, 65, 1000} {
		if got, want := bits.OnesCount64(below(n)), min(max(n, 0), 64); got != want || bits.Len64(below(n)) != want {
			t.Errorf("below(%d) = %x", n, below(n))
		}
	}
}
