// SPDX-License-Identifier: Apache-2.0

package rc

// ring is a bitmap of the packets within a window that moves: packet n is bit n modulo its length.
type ring struct {
	words []uint64
	mask  uint32 // bits, less one
}

// newRing makes one for windows of up to n packets.
func newRing(n uint32) ring {
	bits := uint32(64)
	for bits < n {
		bits *= 2
	}
	return ring{words: make([]uint64, bits/64), mask: bits - 1}
}

func (r *ring) has(psn uint32) bool {
	i := psn & r.mask
	return r.words[i>>6]>>(i&63)&1 != 0
}

// set reports whether the bit was clear.
func (r *ring) set(psn uint32) bool {
	i := psn & r.mask
	w := &r.words[i>>6]
	was := *w
	*w |= 1 << (i & 63)
	return was != *w
}

// take clears the bit and reports whether it was set.
func (r *ring) take(psn uint32) bool {
	i := psn & r.mask
	w := &r.words[i>>6]
	was := *w
	*w &^= 1 << (i & 63)
	return was != *w
}
