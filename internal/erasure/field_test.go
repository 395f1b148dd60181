// SPDX-License-Identifier: Apache-2.0

package erasure

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowMul multiplies polynomials and reduces, as the definition says.
func slowMul(a, b byte) byte {
	p := 0
	for i := range 8 {
		if b>>i&1 != 0 {
			p ^= int(a) << i
		}
	}
	for i := 14; i >= 8; i-- {
		if p>>i&1 != 0 {
			p ^= polynomial << (i - 8)
		}
	}
	return byte(p)
}

func TestField(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			x, y := byte(a), byte(b)
			if gf.mul(x, y) != slowMul(x, y) {
				t.Fatalf("%d·%d = %d", a, b, gf.mul(x, y))
			}
			if b != 0 && slowMul(gf.div(x, y), y) != x {
				t.Fatalf("%d/%d = %d", a, b, gf.div(x, y))
			}
			// GF2P8AFFINEQB, as Intel's manual defines it.
			affine := byte(0)
			for i := range 8 {
				row := byte(gf.affine[x] >> (8 * (7 - i)))
				affine |= byte(bits.OnesCount8(row&y)&1) << i
			}
			if affine != slowMul(x, y) {
				t.Fatalf("%d·%d = %d with a matrix", a, b, affine)
			}
		}
	}
}

// TestMatrix holds what both ends of the wire must agree on.
func TestMatrix(t *testing.T) {
	for j := range 255 {
		require.Equal(t, byte(1), cauchy(0, j), "row 0 is all ones")
	}
	// Computed by hand: c(1, 0) = 255/254, and so on.
	require.Equal(t, byte(255), slowMul(cauchy(1, 0), 254))
	require.Equal(t, byte(255^31), slowMul(cauchy(7, 31), 248^31))
	require.Equal(t, byte(255^1), slowMul(cauchy(253, 1), 2^1))

	sum := sha256.New()
	for k := 1; k <= 255; k++ {
		for i := range MDS().rows(k) {
			sum.Write([]byte{cauchy(i, k-1)})
		}
	}
	require.Equal(t, "3e2edac61bdce3125f2d74adbff6f449b08031d82095589d6744861ca6d1c90c", hex.EncodeToString(sum.Sum(nil)), "the matrix is part of the protocol")
}
