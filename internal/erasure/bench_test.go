// SPDX-License-Identifier: Apache-2.0

package erasure

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchmarkCode runs f for groups of the shapes that docs/results/coding.md has,
// with and without the kernels. The comparison with ISA-L is test/bench/erasure.
func benchmarkCode(b *testing.B, f func(c *Coder, data, parity [][]byte) error) {
	const k, m = 32, 8
	for _, unit := range []int{4 << 10, 64 << 10} {
		for _, kernels := range []bool{true, false} {
			b.Run(fmt.Sprintf("unit=%d/kernels=%t", unit, kernels), func(b *testing.B) {
				if kernels && !haveKernels {
					b.Skip("this CPU has no AVX-512 with GFNI")
				}
				useKernels = kernels
				defer func() { useKernels = true }()
				g := newGroup(rand.New(rand.NewPCG(1, 1)), k+m, unit)
				var c Coder
				b.SetBytes(k * int64(unit))
				for b.Loop() {
					if err := f(&c, g.units[:k], g.units[k:]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

var eight = []int{0, 1, 2, 3, 4, 5, 6, 7}

func BenchmarkEncodeMDS(b *testing.B) {
	benchmarkCode(b, func(c *Coder, data, parity [][]byte) error { return c.Encode(MDS(), data, eight, parity) })
}

func BenchmarkEncodeXOR(b *testing.B) {
	benchmarkCode(b, func(c *Coder, data, parity [][]byte) error { return c.Encode(XOR(8), data, eight, parity) })
}

func BenchmarkDecodeMDS(b *testing.B) {
	benchmarkCode(b, func(c *Coder, data, parity [][]byte) error {
		// The eight results take the place of the eight missing units.
		return c.Decode(MDS(), data, eight, parity, eight, data[:8])
	})
}
