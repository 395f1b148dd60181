// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"math/bits"
	"sync"
)

// slabPool keeps bitmap memory of completed receives by size class, so that
// memory follows use. It holds at most maxSlabs of each class.
type slabPool struct {
	mu   sync.Mutex
	free [40][][]uint64
}

const maxSlabs = 64

// class is the power of two that n words are rounded up to.
func class(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

func (p *slabPool) get(n int) []uint64 {
	c := class(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := len(p.free[c]); l > 0 {
		s := p.free[c][l-1]
		p.free[c] = p.free[c][:l-1]
		return s
	}
	return make([]uint64, 1<<c)
}

func (p *slabPool) put(s []uint64) {
	if s == nil {
		return
	}
	c := class(len(s))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free[c]) < maxSlabs {
		p.free[c] = append(p.free[c], s)
	}
}
