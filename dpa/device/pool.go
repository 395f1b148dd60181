// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package device

import "math/bits"

// A pool hands out pieces of memory that aren't the Go heap's, and keeps those that come back for the next of their size. Sizes are
// powers of two, whole lines: messages have many lengths, and what was for one must do for others.
type pool struct {
	free      map[int][]uint64 // by size
	more      func(n int) (uint64, error)
	allocated uint64 // of what more has given, where it comes from one piece
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// pieceSize is the size of the piece for n bytes.
func pieceSize(n int) int { return max(line, 1<<bits.Len(uint(max(n, 1)-1))) }

// get returns a piece of n bytes; what is in it is anything.
func (p *pool) get(n int) (uint64, error) {
	n = pieceSize(n)
	if f := p.free[n]; len(f) > 0 {
		p.free[n] = f[:len(f)-1]
		return f[len(f)-1], nil
	}
	return p.more(n)
}

// put returns a piece of n bytes, which nobody uses any more, to the pool.
func (p *pool) put(n int, at uint64) {
	n = pieceSize(n)
	p.free[n] = append(p.free[n], at)
}
