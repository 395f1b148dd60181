// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A Fixed controller keeps its limits whatever happens: for a link of known rate that nobody shares,
// and for experiments without congestion control. 0 of either field is no limit of that kind.
type Fixed struct {
	Rate   units.Rate
	Window units.Bytes
}

// OnSent does nothing.
func (Fixed) OnSent(units.Instant, units.Bytes, units.Bytes) {}

// OnAck does nothing.
func (Fixed) OnAck(units.Instant, *Ack) {}

// OnCNP does nothing.
func (Fixed) OnCNP(units.Instant) {}

// OnLoss does nothing.
func (Fixed) OnLoss(units.Instant, Loss) {}

// Limits returns the fields.
func (f Fixed) Limits(units.Instant) (units.Rate, units.Bytes) { return f.Rate, f.Window }

// Next returns units.Never.
func (Fixed) Next() units.Instant { return units.Never }
