// SPDX-License-Identifier: Apache-2.0

// Package units holds the types in which go-sdr counts: instants and
// durations in nanoseconds, sizes in bytes, rates in bits per second.
//
// They exist so that a byte can't be added to a nanosecond, so that protocol
// cores need not import package time, and so that every command parses and
// prints sizes, rates and times alike. All types are plain int64 values, and
// all functions are safe for concurrent use. The package imports nothing of
// go-sdr.
package units

import (
	"math"
	"time"
)

// An Instant is a point on a device's clock, in nanoseconds since an origin
// that only that device knows. Instants of different devices can't be compared.
type Instant int64

// A Duration is a span of time in nanoseconds. It is time.Duration, by a name that protocol cores
// can use without importing package time.
type Duration = time.Duration

// Durations to multiply with, those of package time.
const (
	Nanosecond  = time.Nanosecond
	Microsecond = time.Microsecond
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
)

// Never is later than every deadline: "no timer is running".
const Never Instant = math.MaxInt64

// Add returns t+d. It saturates at Never, so Never.Add(d) is Never.
func (t Instant) Add(d Duration) Instant {
	s := t + Instant(d)
	if d > 0 && s < t {
		return Never
	}
	return s
}

// Sub returns t-u.
func (t Instant) Sub(u Instant) Duration { return Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Instant) Before(u Instant) bool { return t < u }

// After reports whether t is later than u.
func (t Instant) After(u Instant) bool { return t > u }

// Bytes is a size in bytes.
type Bytes int64

// Binary and decimal multiples.
const (
	Byte = Bytes(1)
	KiB  = Bytes(1 << 10)
	MiB  = Bytes(1 << 20)
	GiB  = Bytes(1 << 30)
	TiB  = Bytes(1 << 40)
	KB   = Bytes(1e3)
	MB   = Bytes(1e6)
	GB   = Bytes(1e9)
)

// A Rate is a data rate in bits per second. What it counts (user data, or
// headers too) is said where a rate is used.
type Rate int64

// Decimal multiples: link rates are decimal.
const (
	BitPerSecond Rate = 1
	Kbit              = 1000 * BitPerSecond
	Mbit              = 1000 * Kbit
	Gbit              = 1000 * Mbit
	Tbit              = 1000 * Gbit
)

// Time returns how long n bytes take at rate r, rounded up to a nanosecond.
// It is 0 when r is 0, which stands for "no limit", and saturates.
func (r Rate) Time(n Bytes) Duration {
	if r <= 0 || n <= 0 {
		return 0
	}
	hi, lo := mul64(uint64(n), 8e9)
	q, rem, ok := div128(hi, lo, uint64(r))
	if !ok || q > math.MaxInt64-1 {
		return math.MaxInt64
	}
	if rem != 0 {
		q++
	}
	return Duration(q)
}

// Bytes returns how many whole bytes rate r carries in d.
func (r Rate) Bytes(d Duration) Bytes {
	if r <= 0 || d <= 0 {
		return 0
	}
	hi, lo := mul64(uint64(r), uint64(d))
	q, _, ok := div128(hi, lo, 8e9)
	if !ok || q > math.MaxInt64 {
		return math.MaxInt64
	}
	return Bytes(q)
}

// RateOf returns the rate at which n bytes pass in d, or 0 when d is not
// positive.
func RateOf(n Bytes, d Duration) Rate {
	if d <= 0 || n <= 0 {
		return 0
	}
	hi, lo := mul64(uint64(n), 8e9)
	q, _, ok := div128(hi, lo, uint64(d))
	if !ok || q > math.MaxInt64 {
		return math.MaxInt64
	}
	return Rate(q)
}
