// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"hash/crc32"

	"github.com/klauspost/cpuid/v2"
)

// A foldWidth is how many bits the kernel's registers have.
type foldWidth uint8

const (
	noFold foldWidth = iota // hash/crc32 alone
	fold128
	fold256
	fold512
)

// widestFold is the most that this processor can do: carry-less multiplication of 512 bits (Intel's servers since Ice
// Lake, AMD since Zen 4), 256 (Intel's clients since Alder Lake, AMD since Zen 3), or 128 (Intel since Sandy Bridge, AMD
// since Bulldozer).
func widestFold() foldWidth {
	switch {
	case cpuid.CPU.Supports(cpuid.VPCLMULQDQ, cpuid.AVX512F, cpuid.AVX512VL):
		return fold512
	case cpuid.CPU.Supports(cpuid.VPCLMULQDQ, cpuid.AVX2):
		return fold256
	case cpuid.CPU.Supports(cpuid.CLMUL, cpuid.AVX):
		return fold128
	}
	return noFold
}

// foldBits is widestFold; tests make it less.
var foldBits = widestFold()

// leastFold is the shortest input that the kernel takes; what is shorter, and the last bytes of what isn't a
// multiple of its lane, are hash/crc32's.
const leastFold, foldLane = 16, 16

// crcUpdate is crc32.Update of Ethernet's polynomial.
func crcUpdate(crc uint32, p []byte) uint32 { return crcFetch(crc, p, p) }

// crcFetch is crcUpdate, and fetches the first bytes of next into the caches, of about as many as p has. It needn't have so many, but
// one.
func crcFetch(crc uint32, p, next []byte) uint32 {
	if foldBits == noFold || len(p) < leastFold {
		return crc32.Update(crc, crc32.IEEETable, p)
	}
	whole := len(p) &^ (foldLane - 1)
	switch foldBits {
	case fold512:
		crc = ^foldBy512(^crc, p[:whole], &foldBy, &next[0])
	case fold256:
		crc = ^foldBy256(^crc, p[:whole], &foldBy, &next[0])
	default:
		crc = ^foldBy128(^crc, p[:whole], &foldBy, &next[0])
	}
	if whole < len(p) {
		crc = crc32.Update(crc, crc32.IEEETable, p[whole:])
	}
	return crc
}

// foldBy512 returns the register after the bytes of p, of which there must be a multiple of 16, and at least 16. It fetches
// the memory from next on, all but 256 bytes of the length of p.
//
//go:noescape
func foldBy512(crc uint32, p []byte, keys *foldKeys, next *byte) uint32

// foldBy256 is foldBy512 with registers of 256 bits. It fetches all but 128 bytes.
//
//go:noescape
func foldBy256(crc uint32, p []byte, keys *foldKeys, next *byte) uint32

// foldBy128 is foldBy512 with registers of 128 bits. It fetches all but 64 bytes.
//
//go:noescape
func foldBy128(crc uint32, p []byte, keys *foldKeys, next *byte) uint32

// A foldKey are the two factors that move 64 bits each over a distance.
type foldKey struct{ low, high uint64 }

// foldKeys are those that the kernel needs, in its order.
type foldKeys struct {
	by2048, by512 foldKey
	lanes         [4]foldKey // by 384, 256 and 128 bits, and not at all
	to64          foldKey    // low: from 96 bits to 64
	barrett       foldKey    // μ and the generator
	by1024        foldKey
}

var foldBy = foldKeys{
	by2048: foldOver(2048), by512: foldOver(512),
	lanes:   [4]foldKey{foldOver(384), foldOver(256), foldOver(128)},
	to64:    foldKey{low: power(64)},
	barrett: foldKey{low: barrettMu(), high: generator},
	by1024:  foldOver(1024),
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
