// SPDX-License-Identifier: Apache-2.0

package bitmap

// A Range is the bits, packets or chunks From to To-1.
type Range struct{ From, To int }

// Len returns how many there are.
func (r Range) Len() int { return r.To - r.From }

// A Pair is the union of a first-pass map, whose words have one writer each
// (Publish), and a repair map that anyone may write (Or). A bit is
// set when either map has it. Both maps must be bound, to the same number of
// bits. The methods of Pair only read, and may run concurrently with writers.
type Pair struct{ First, Repair Map }

// Len returns the number of bits.
func (p *Pair) Len() int { return p.First.Len() }

// Word returns bits 64w to 64w+63 of the union, the lowest in bit 0. Bits at
// and beyond Len read as 0.
func (p *Pair) Word(w int) uint64 {
	return union(p.First.words, p.Repair.words, w) & below(p.Len()-w*wordBits)
}

// Has reports whether bit i is set. No bit outside [0, Len) is.
func (p *Pair) Has(i int) bool { return p.First.Has(i) || p.Repair.Has(i) }

// Count returns the number of bits set.
func (p *Pair) Count() int { return count(p.First.words, p.Repair.words, p.Len()) }

// AllSet reports whether every bit is set. It is true of an empty pair.
func (p *Pair) AllSet() bool { return full(p.First.words, p.Repair.words, 0, p.Len()) }

// NextMissing returns the first clear bit at or after from, or Len if there is
// none.
func (p *Pair) NextMissing(from int) int {
	return nextMissing(p.First.words, p.Repair.words, from, p.Len())
}

// NextSet returns the first set bit at or after from, or Len if there is none.
func (p *Pair) NextSet(from int) int {
	return nextSet(p.First.words, p.Repair.words, from, p.Len())
}
