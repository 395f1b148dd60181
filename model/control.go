// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/sdr-rdma/go-sdr/units"
)

// Control frames that mustn't cost a round trip when lost, START and the final acknowledgement,
// are sent three times, RTT/64 but at least 20 µs apart, then once per RTT.

// copyAt returns when copy n of such a frame is sent, in nanoseconds after the first.
func copyAt(n int, rtt float64) float64 {
	space := max(rtt/64, float64(20*units.Microsecond))
	if n < 3 {
		return float64(n) * space
	}
	return 2*space + float64(n-2)*rtt
}

// controlDelay draws what lost copies cost one such frame.
func (s *source) controlDelay(rtt float64) float64 {
	if !s.controlLost() {
		return 0
	}
	n := 1
	for s.controlLostAgain(copyAt(n, rtt) - copyAt(n-1, rtt)) {
		n++
	}
	return copyAt(n, rtt)
}

// meanControl returns the mean of max(0, delay of START - done) plus that of the final
// acknowledgement's delay. done is the mean time at which the last unit was injected.
func meanControl(t Transfer, done float64) float64 {
	p, sum := float64(t.Control), 0.0
	for n, q := 1, p; q > 1e-18; n, q = n+1, q*p {
		delay := copyAt(n, t.rtt())
		sum += q * (1 - p) * (delay + math.Max(0, delay-done))
	}
	return sum
}
