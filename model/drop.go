// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"

	"github.com/sdr-rdma/go-sdr/operr"
)

// A PacketDrop is the probability that one packet is lost, from 0 to [MaxDrop].
type PacketDrop float64

// A UnitDrop is the probability that one unit is lost: at least one of the packets that it is
// made of. The unit is what a scheme repeats or codes, a packet or a chunk. It ranges from 0 to
// [MaxDrop]. The SDR-RDMA paper's P_drop is a UnitDrop (section 4.2.1).
type UnitDrop float64

// MaxDrop is the largest drop probability that the model takes: beyond it every unit is sent
// more than ten times, which no scheme here is meant for.
const MaxDrop = 0.9

// Unit returns the probability that a unit of so many packets is lost, 1-(1-p)^packets (paper,
// section 5.4.2).
func (p PacketDrop) Unit(packets int64) UnitDrop {
	return UnitDrop(-math.Expm1(float64(packets) * math.Log1p(-float64(p))))
}

// Packet returns the packet drop probability that makes a unit of so many packets be lost with
// probability q. It is the inverse of [PacketDrop.Unit].
func (q UnitDrop) Packet(packets int64) PacketDrop {
	return PacketDrop(-math.Expm1(math.Log1p(-float64(q)) / float64(packets)))
}

func checkDrop(what string, p float64) error {
	if !(p >= 0 && p <= MaxDrop) { // also refuses NaN
		return operr.New("predict", "completion time", "%w: %s drop probability %g, allowed 0 to %g", ErrRange, what, p, MaxDrop)
	}
	return nil
}
