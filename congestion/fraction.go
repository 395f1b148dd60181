// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

// A fraction is a number from 0 to 1 in units of 2^-63. Controllers decide with integers: a float64
// product and sum may be fused into one rounding on one architecture and not on another.
type fraction uint64

const whole fraction = 1 << 63

// fractionOf scales f, which must be within 0 and 1. Scaling by a power of two is exact.
func fractionOf(f float64) fraction { return fraction(math.Ldexp(f, 63)) }

// fractionIn returns part/all, rounded down. part must be within 0 and all, and all above 0.
func fractionIn(part, all units.Duration) fraction {
	q, _ := bits.Div64(uint64(part)>>1, uint64(part)<<63, uint64(all))
	return fraction(q)
}

// times returns a·b, rounded down.
func (a fraction) times(b fraction) fraction {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return fraction(hi<<1 | lo>>63)
}

// of returns a·n, rounded down. n must not be negative.
func (a fraction) of(n int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(n))
	return int64(hi<<1 | lo>>63)
}

// powers is a table of f^(2^i).
type powers [32]fraction

func powersOf(f fraction) *powers {
	p := &powers{f}
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1].times(p[i-1])
	}
	return p
}

// raise returns a·f^k. k must not be negative.
func (p *powers) raise(a fraction, k int64) fraction {
	if k >= 1<<len(p) {
		k = 1<<len(p) - 1
	}
	for i := 0; k > 0 && a > 0; i, k = i+1, k>>1 {
		if k&1 != 0 {
			a = a.times(p[i])
		}
	}
	return a
}
