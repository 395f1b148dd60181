// SPDX-License-Identifier: Apache-2.0

package units

import "math/bits"

func mul64(a, b uint64) (hi, lo uint64) { return bits.Mul64(a, b) }

// div128 divides without the panic of bits.Div64: ok is false when the
// quotient does not fit 64 bits, or d is 0.
func div128(hi, lo, d uint64) (q, rem uint64, ok bool) {
	if hi >= d {
		return 0, 0, false
	}
	q, rem = bits.Div64(hi, lo, d)
	return q, rem, true
}
