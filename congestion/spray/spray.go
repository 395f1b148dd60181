// SPDX-License-Identifier: Apache-2.0

// Package spray chooses a path for each packet, where a sender has many: UDP source ports or IPv6 flow
// labels that switches hash.
//
// Choosers have no clock and draw nothing. They are not safe for concurrent use, and allocate nothing
// once they are made.
package spray

import "fmt"

// MaxPaths is the largest number of paths, as many as STrack uses.
const MaxPaths = 256

// A Chooser picks the paths of one sender's packets, numbered from 0.
type Chooser interface {
	// Choose returns the path of the next packet. window is the congestion window in packets.
	Choose(window int) uint16
	// Feedback tells that a packet of that path was acknowledged, and whether it was marked. Paths
	// that there are not are ignored.
	Feedback(path uint16, ecn bool)
}

// An Oblivious chooser takes all paths in turn, whatever becomes of the packets.
type Oblivious struct{ paths, last int }

// NewOblivious makes a chooser for 1 to MaxPaths paths.
func NewOblivious(paths int) *Oblivious {
	check(paths)
	return &Oblivious{paths: paths, last: paths - 1}
}

// Choose returns the next path.
func (o *Oblivious) Choose(int) uint16 {
	if o.last++; o.last >= o.paths {
		o.last = 0
	}
	return uint16(o.last)
}

// Feedback does nothing.
func (o *Oblivious) Feedback(uint16, bool) {}

// A Bitmap is STrack's adaptive load balancing (paper section 3.1, Algorithm 2): a path from which an
// acknowledgement has just come without a mark is used again at once, else those whose last packet was
// not marked, in turn.
//
// The paper's text and its algorithm contradict each other; these are the readings that the text asks
// for. A set bit is a bad path: the algorithm sets bits of good paths and skips those. Path 0 may be used again
// like any other: the algorithm tests for "> 0". Where the text clears the whole bitmap "after one or two"
// round trips, each packet clears one bit, as in the algorithm.
type Bitmap struct {
	paths, last int
	again       int // the path to use again; none
	bad         [MaxPaths / 64]uint64
}

const (
	none = -1
	// leastPaths is how many paths are used however small the window is.
	leastPaths = 8
)

// NewBitmap makes a chooser for 1 to MaxPaths paths.
func NewBitmap(paths int) *Bitmap {
	check(paths)
	return &Bitmap{paths: paths, last: paths - 1, again: none}
}

// Choose returns a path among the first two times window, at least eight.
func (b *Bitmap) Choose(window int) uint16 {
	if b.again != none {
		b.last, b.again = b.again, none
		return uint16(b.last)
	}
	n := min(b.paths, max(leastPaths, 2*min(max(window, 0), MaxPaths)))
	b.step(n)
	// A packet clears one bit only, and comes round to that path when all are bad.
	for cleared := false; b.isBad(b.last); b.step(n) {
		if !cleared {
			b.set(b.last, false)
			cleared = true
		}
	}
	return uint16(b.last)
}

// Warm reads what the next packet needs: see transport.Warmer.
func (b *Bitmap) Warm() uint32 { return uint32(b.last) }

func (b *Bitmap) step(n int) {
	if b.last++; b.last >= n {
		b.last = 0
	}
}

// Feedback marks a path as bad or good.
func (b *Bitmap) Feedback(path uint16, ecn bool) {
	if int(path) >= b.paths {
		return
	}
	b.set(int(path), ecn)
	b.again = none
	if !ecn {
		b.again = int(path)
	}
}

func (b *Bitmap) isBad(i int) bool { return b.bad[i>>6]>>(i&63)&1 != 0 }

func (b *Bitmap) set(i int, bad bool) {
	if bad {
		b.bad[i>>6] |= 1 << (i & 63)
	} else {
		b.bad[i>>6] &^= 1 << (i & 63)
	}
}

func check(paths int) {
	if paths < 1 || paths > MaxPaths {
		panic(fmt.Sprintf("spray: %d paths: must be between 1 and %d", paths, MaxPaths))
	}
}
