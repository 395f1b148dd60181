// SPDX-License-Identifier: Apache-2.0

// Package bitring is what transports keep of each packet of a window: one bit.
package bitring

import "math/bits"

// Ring is a bitmap of the packets within a window that moves: packet n is bit n modulo its length, a
// power of two. Ranges are at most that long.
type Ring []uint64

// New makes one for windows of up to n packets.
func New(n uint32) Ring {
	length := uint32(64)
	for length < n {
		length *= 2
	}
	return make(Ring, length/64)
}

// Bits is the length.
func (r Ring) Bits() uint32 { return uint32(len(r)) * 64 }

// word is where the bit of packet psn is, and its number there.
func (r Ring) word(psn uint32) (w *uint64, bit uint32) {
	return r.Word(psn), psn & 63
}

// Word is the 64 bits that hold packet psn's.
func (r Ring) Word(psn uint32) *uint64 { return &r[psn>>6&uint32(len(r)-1)] }

// Has tells whether the bit is set.
func (r Ring) Has(psn uint32) bool { return *r.Word(psn)>>(psn&63)&1 != 0 }

// Clear clears the bit.
func (r Ring) Clear(psn uint32) { *r.Word(psn) &^= 1 << (psn & 63) }

// Set reports whether the bit was clear.
func (r Ring) Set(psn uint32) bool {
	w, bit := r.word(psn)
	was := *w
	*w |= 1 << bit
	return was != *w
}

// TakeOnes clears the bits that are set from psn on, up to the first that is not, and returns how many
// there were.
func (r Ring) TakeOnes(psn uint32) (n uint32) {
	for n < r.Bits() {
		w, bit := r.word(psn + n)
		ones := uint32(bits.TrailingZeros64(^(*w >> bit)))
		*w &^= (1<<ones - 1) << bit // 1<<64 is 0
		n += ones
		if ones < 64-bit {
			return n
		}
	}
	return n
}

// TakeAll clears the bits of [from, to) and returns how many were set.
func (r Ring) TakeAll(from, to uint32) (n uint32) {
	for from < to {
		w, bit := r.word(from)
		most := min(64-bit, to-from)
		mask := ^uint64(0) >> (64 - most) << bit
		n += uint32(bits.OnesCount64(*w & mask))
		*w &^= mask
		from += most
	}
	return n
}

// FirstClear is the first packet of [from, to) whose bit is clear; to: there is none.
func (r Ring) FirstClear(from, to uint32) uint32 {
	for from < to {
		w, bit := r.word(from)
		if zeros := ^*w >> bit; zeros != 0 {
			return min(from+uint32(bits.TrailingZeros64(zeros)), to)
		}
		from += 64 - bit
	}
	return to
}
