// SPDX-License-Identifier: Apache-2.0

package des

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Time is a point in simulated time or a span of it, in picoseconds. A byte
// takes 20 ps at 400 Gbit/s, so nanoseconds would not do. The range is 106 days.
type Time int64

// Never is later than every event.
const Never Time = math.MaxInt64

const psPerNs = 1000

// At converts an instant. It saturates at Never.
func At(t units.Instant) Time {
	if t > units.Instant(Never/psPerNs) {
		return Never
	}
	return Time(t) * psPerNs
}

// Span converts a duration. It saturates at Never.
func Span(d units.Duration) Time { return At(units.Instant(d)) }

// Instant is the first whole nanosecond at or after t: an instant at which what
// happens at t has happened.
func (t Time) Instant() units.Instant {
	if t == Never {
		return units.Never
	}
	q := t / psPerNs
	if t%psPerNs > 0 {
		q++
	}
	return units.Instant(q)
}

// Add returns t+d, at most Never. d must not be negative.
func (t Time) Add(d Time) Time {
	if s := t + d; s >= t {
		return s
	}
	return Never
}

// Serialization is how long n bytes take on a wire of rate r, rounded up to a
// picosecond; 0 when r is 0, which stands for no limit.
func Serialization(n units.Bytes, r units.Rate) Time {
	if r <= 0 || n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), 8e12)
	if hi == 0 {
		q := lo / uint64(r)
		if q*uint64(r) != lo {
			q++
		}
		return Time(min(q, uint64(Never)))
	}
	if hi >= uint64(r) {
		return Never
	}
	q, rem := bits.Div64(hi, lo, uint64(r))
	if rem != 0 {
		q++
	}
	return Time(min(q, uint64(Never)))
}
