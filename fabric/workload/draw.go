// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/units"
)

// A purpose keeps the draws of one thing from moving with those of another.
type purpose uint64

const (
	forPlaces purpose = iota + 1
	forJitter
	forArrivals
	forBursts
	forPipelines
)

// A source draws for one purpose, and where each host draws on its own, for one host. The logarithm and
// the exponential are its own, bit by bit, because those of package math differ in the last bit between
// architectures.
type source struct{ *rand.Rand }

func newSource(seed uint64, p purpose, id int) source {
	return source{rand.New(rand.NewPCG(seed, uint64(p)<<32|uint64(uint32(id))))}
}

const logBits = 44

// log2 returns the logarithm to base 2 of x·2^-64, which is below 0, times -2^logBits. x must not be 0.
func log2(x uint64) uint64 {
	zeros := bits.LeadingZeros64(x)
	whole, x := uint64(zeros+1), x<<zeros
	// x is a mantissa from 1 to 2, in units of 2^-63. Squaring it doubles its logarithm.
	var part uint64
	for range logBits {
		hi, lo := bits.Mul64(x, x)
		part <<= 1
		if hi>>63 != 0 {
			part |= 1
			x = hi
		} else {
			x = hi<<1 | lo>>63
		}
	}
	return whole<<logBits - part
}

// exponential draws a gap of a Poisson process with that mean.
func (s source) exponential(mean float64) float64 {
	return mean * float64(float64(log2(s.Uint64()|1))*(math.Ln2/(1<<logBits)))
}

// normal draws from the standard normal distribution (Marsaglia's polar method).
func (s source) normal() float64 {
	for {
		x, y := 2*s.Float64()-1, 2*s.Float64()-1
		r := float64(x*x) + float64(y*y)
		if r >= 1 || r < 1e-9 {
			continue
		}
		ln := -float64(log2(uint64(math.Ldexp(r, 64)))) * (math.Ln2 / (1 << logBits))
		return x * math.Sqrt(-2*ln/r)
	}
}

// exp2 returns 2^x for x from -1000 to 1000: the product of 2^(1/2), 2^(1/4), … for the bits of its
// fraction. Square roots are rounded alike everywhere.
func exp2(x float64) float64 {
	whole := math.Floor(x)
	rest, factor, v := x-whole, math.Sqrt2, 1.0
	for range 50 {
		if rest *= 2; rest >= 1 {
			rest--
			v *= factor
		}
		factor = math.Sqrt(factor)
	}
	return math.Ldexp(v, int(whole))
}

// lognormal draws a gap of that mean whose logarithm has the standard deviation sigma.
func (s source) lognormal(mean, sigma float64) float64 {
	// The mean of e^(σN) is e^(σ²/2).
	e := float64(sigma*s.normal()) - float64(sigma*sigma)/2
	return mean * exp2(min(max(e*math.Log2E, -1000), 1000))
}

// below draws a time from 0 up to d, d included.
func (s source) below(d units.Duration) units.Instant {
	if d <= 0 {
		return 0
	}
	return units.Instant(s.Int64N(int64(d) + 1))
}
