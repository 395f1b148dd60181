// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Kilometers is a length of cable.
type Kilometers float64

// MicrosPerKm is how long a signal needs for one kilometre, one way, in microseconds.
type MicrosPerKm float64

const (
	// Fibre is light in glass of refractive index 1.5: two thirds of its speed in vacuum.
	Fibre MicrosPerKm = 5
	// PaperSpeed is what the SDR-RDMA paper calculates with: 3750 km are a round trip of 25 ms.
	// That is light in vacuum. It turns a distance into two thirds of the RTT of real fibre.
	PaperSpeed MicrosPerKm = 10.0 / 3
)

// RTT returns the round-trip time over d. It fails for a distance outside (0, 1e6] km or a speed
// outside [3, 100] µs/km.
func (d Kilometers) RTT(v MicrosPerKm) (units.Duration, error) {
	if !(d > 0 && d <= 1e6) {
		return 0, operr.New("predict", "completion time", "%w: distance %g km, allowed above 0 to 1000000 km", ErrRange, float64(d))
	}
	if !(v >= 3 && v <= 100) {
		return 0, operr.New("predict", "completion time", "%w: %g µs/km, allowed 3 to 100 (vacuum 3.33, fibre 5)", ErrRange, float64(v))
	}
	return units.Duration(math.Round(2 * float64(d) * float64(v) * float64(units.Microsecond))), nil
}
