// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// A Prob is a probability scaled to an integer: 0 is never, one is always.
type Prob uint64

// one is certainty. 63 bits, so that it needs no case of its own.
const one Prob = 1 << 63

// ProbOf scales p, which must be within 0 and 1. Scaling by a power of two is
// exact, so every architecture gets the same integer.
func ProbOf(p float64) Prob { return Prob(math.Ldexp(p, 63)) }

// mulDiv returns p·q/r without loss in between, at most one.
func mulDiv(p, q, r Prob) Prob {
	hi, lo := bits.Mul64(uint64(p), uint64(q))
	if hi >= uint64(r) {
		return one
	}
	v, _ := bits.Div64(hi, lo, uint64(r))
	return min(Prob(v), one)
}

// A purpose names what a generator's draws decide. The values are part of what
// makes runs repeatable: never renumber them.
type purpose uint64

const (
	forLoss purpose = iota + 1
	forBurst
	forReorder
	forReorderDelay
	forJitter
	forDuplicate
	forCorrupt
	forTrim
)

// A Stream is a generator for one purpose.
type Stream struct{ pcg rand.PCG }

// NewStream makes the generator of one purpose from a seed: the same two
// numbers give the same draws, others give unrelated ones.
func NewStream(seed, purpose uint64) Stream {
	var s Stream
	s.pcg.Seed(Mix(seed), Mix(purpose^0x9e3779b97f4a7c15))
	return s
}

func newStream(seed uint64, p purpose) Stream { return NewStream(seed, uint64(p)) }

// Hit draws once and reports whether an event of probability p happened.
func (s *Stream) Hit(p Prob) bool { return Prob(s.pcg.Uint64()>>1) < p }

// Below draws once and returns a time from 0 up to, not including, n.
func (s *Stream) Below(n Time) Time {
	hi, _ := bits.Mul64(s.pcg.Uint64(), uint64(n))
	return Time(hi)
}

// exponential draws a time from the exponential distribution with this mean, which is
// at least 1. It only compares integers, so every architecture draws the same (von
// Neumann, "Various techniques used in connection with random digits", 1951).
func (s *Stream) exponential(mean Time) Time {
	for whole := Time(0); ; whole++ {
		first := s.pcg.Uint64()
		n := 1
		for last := first; ; n++ {
			u := s.pcg.Uint64()
			if u >= last {
				break
			}
			last = u
		}
		if n%2 == 1 {
			part, _ := bits.Mul64(first, uint64(mean))
			return max(1, whole*mean+Time(part))
		}
	}
}

// Uint64 draws 64 bits.
func (s *Stream) Uint64() uint64 { return s.pcg.Uint64() }

// Mix turns a number into one that looks unrelated to its neighbours': the
// finalizer of SplitMix64. It derives seeds from seeds.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
