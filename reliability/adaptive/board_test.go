// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A board is a receiver's bitmap.
type board struct {
	has   []bool
	marks [4]scheme.Mark
}

func (b *board) Has(u scheme.Unit) bool { return u.IsData() && b.has[u.Index()] }
func (b *board) NextMissing(from int) int {
	for from < len(b.has) && b.has[from] {
		from++
	}
	return from
}
func (b *board) NextPresent(from, to int) int {
	for from < to && !b.has[from] {
		from++
	}
	return from
}
func (b *board) Mark(c int) scheme.Mark { return b.marks[c] }
func (b *board) First() units.Instant   { return 0 }
func (b *board) Home(u scheme.Unit) int { return u.Index() / 64 % 4 }

// A parityBoard is one of data and parity.
type parityBoard struct {
	board
	parity []bool
}

func (b *parityBoard) Has(u scheme.Unit) bool {
	if u.IsParity() {
		return u.Index() < len(b.parity) && b.parity[u.Index()]
	}
	return b.board.Has(u)
}
