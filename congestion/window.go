// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

// A window is a number of bytes in units of 2^-windowShift: Swift's goes down to thousandths of a packet, and the others add less than
// a byte at a time.
type window int64

const (
	windowShift = 16
	// maxPackets bounds windows, so that a window of packets of 64 KiB and a product with
	// windowShift stay within 63 bits.
	maxPackets = 1 << 24
	maxMTU     = 64 * units.KiB
	// delayShift makes an average delay a number of 2^-8 ns, so that its fractions aren't lost.
	delayShift = 8
)

func windowOf(packets float64, mtu units.Bytes) window {
	return window(math.Ldexp(packets, windowShift)) * window(mtu)
}

// bytes is the whole part.
func (w window) bytes() units.Bytes { return units.Bytes(w >> windowShift) }

// growth is by·acked/w: what raises w by so much each round trip, as all of it is acknowledged in one. acked must be within w, so
// that the result is within by.
func (w window) growth(by window, acked units.Bytes) window {
	hi, lo := bits.Mul64(uint64(by), uint64(acked)<<windowShift)
	q, _ := bits.Div64(hi, lo, uint64(w))
	return window(q)
}

// cut is w less γ times the excess of an average delay over its target, and at least a half of w (STrack, Algorithm 3; UE specification
// 1.0, section 3.6.13).
func (w window) cut(gamma fraction, delay, target units.Duration) window {
	part := min(gamma.times(fractionIn(delay-target, delay)), whole/2)
	return window((whole - part).of(int64(w)))
}
