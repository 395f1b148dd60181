// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Time is a point in simulated time or a span of it, in picoseconds: the time of every
// simulation in this module.
type Time = des.Time

// Never is later than every event.
const Never = des.Never

// At converts an instant. It saturates at Never.
func At(t units.Instant) Time { return des.At(t) }

// Span converts a duration. It saturates at Never.
func Span(d units.Duration) Time { return des.Span(d) }

// Serialization is how long n bytes take on a wire of rate r, rounded up to a picosecond; 0 when r
// is 0, which stands for no limit.
func Serialization(n units.Bytes, r units.Rate) Time { return des.Serialization(n, r) }
