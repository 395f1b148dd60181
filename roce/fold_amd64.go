// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// haveFold: the kernel needs 512-bit registers and carry-less multiplication of them.
var haveFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VPCLMULQDQ

// leastFold is the shortest input that the kernel takes; what is shorter, and the last bytes of what isn't a
// multiple of its lane, are hash/crc32's.
const leastFold, foldLane = 16, 16

// crcUpdate is crc32.Update of Ethernet's polynomial.
func crcUpdate(crc uint32, p []byte) uint32 { return crcFetch(crc, p, p) }

// crcFetch is crcUpdate, and fetches the first bytes of next into the caches, of about as many as p has. It needn't have so many, but
// one.
func crcFetch(crc uint32, p, next []byte) uint32 {
	if !haveFold || len(p) < leastFold {
		return crc32.Update(crc, crc32.IEEETable, p)
	}
	whole := len(p) &^ (foldLane - 1)
	crc = ^fold(^crc, p[:whole], &foldBy, &next[0])
	if whole < len(p) {
		crc = crc32.Update(crc, crc32.IEEETable, p[whole:])
	}
	return crc
}

// fold returns the register after the bytes of p, of which there must be a multiple of 16, and at least 16. It fetches
// the memory from next on, all but 256 bytes of the length of p.
//
//go:noescape
func fold(crc uint32, p []byte, keys *foldKeys, next *byte) uint32

// A foldKey are the two factors that move 64 bits each over a distance.
type foldKey struct{ low, high uint64 }

// foldKeys are those that the kernel needs, in its order.
type foldKeys struct {
	by2048, by512 foldKey
	lanes         [4]foldKey // by 384, 256 and 128 bits, and not at all
	to64          foldKey    // low: from 96 bits to 64
	barrett       foldKey    // μ and the generator
}

var foldBy = foldKeys{
	by2048: foldOver(2048), by512: foldOver(512),
	lanes:   [4]foldKey{foldOver(384), foldOver(256), foldOver(128)},
	to64:    foldKey{low: power(64)},
	barrett: foldKey{low: barrettMu(), high: generator},
}

// foldOver are the factors for a distance in bits. A lane's first 64 bits are 64 bits further from the end than its
// last, and a product of two reflected polynomials is one bit off, which power undoes.
func foldOver(bits int) foldKey { return foldKey{power(bits + 32), power(bits - 32)} }

// generator is the polynomial of the CRC, reflected, with bit 0 for x^32.
const generator uint64 = uint64(crc32.IEEE)<<1 | 1

// power is x^n modulo the generator, reflected, times x^-1 for the carry-less product's sake: 33 bits.
func power(n int) uint64 {
	r := crcOne
	for range n {
		r = r>>1 ^ crc32.IEEE&-(r&1)
	}
	return uint64(r) << 1
}

// barrettMu is the quotient of x^64 by the generator, reflected: 33 bits.
func barrettMu() uint64 {
	const plain = 1<<32 | 0x04c11db7 // not reflected
	var mu uint64
	rest := uint64(1) << 32 // x^64, of which the division has come to x^32
	for bit := range 33 {
		if rest&(1<<32) != 0 {
			mu |= 1 << bit
			rest ^= plain
		}
		rest <<= 1
	}
	return mu
}
