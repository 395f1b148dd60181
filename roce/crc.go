// SPDX-License-Identifier: Apache-2.0

package roce

import "hash/crc32"

// The CRC-32 register is linear: what a change of an input bit does to the result depends only on how
// many bytes follow, and changes add up by XOR. Everything in this file is about such differences, for
// which the register's initial value and final complement don't matter.
//
// A register value is also a polynomial over GF(2) modulo the generator, reflected: bit 31 is x^0 and
// bit 0 is x^31. One zero byte of input multiplies it by x^8.

// crcByte returns the register r after a zero byte; after byte c, call it with r ^ c.
func crcByte(r uint32) uint32 { return crc32.IEEETable[byte(r)] ^ r>>8 }

// crcUnbyte is the inverse of crcByte, bit by bit: the generator's x^0 and x^32 terms make a step
// reversible, since the bit that was shifted out shows in the top bit.
func crcUnbyte(r uint32) uint32 {
	for range 8 {
		if r&(1<<31) != 0 {
			r = (r^crc32.IEEE)<<1 | 1
		} else {
			r <<= 1
		}
	}
	return r
}

// crcMul multiplies two register values as polynomials. It takes the same time for all values.
func crcMul(a, b uint32) (p uint32) {
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return p
}

const crcOne uint32 = 1 << 31 // the polynomial 1, for crcMul

// diffTable holds what a difference in one byte makes of the register some bytes later.
type diffTable [256]uint32

// makeDiff returns the table for a byte that is followed by n others.
func makeDiff(n int) *diffTable {
	t := new(diffTable)
	for i := range t {
		r := crcByte(uint32(i))
		for range n {
			r = crcByte(r)
		}
		t[i] = r
	}
	return t
}
