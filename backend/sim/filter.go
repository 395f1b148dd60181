// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Direction says from which device to which a packet goes.
type Direction uint8

// Directions.
const (
	AtoB Direction = iota
	BtoA
)

// String is "A→B" or "B→A".
func (d Direction) String() string {
	if d == AtoB {
		return "A→B"
	}
	return "B→A"
}

// PacketInfo is what a filter sees of a packet that leaves a device.
type PacketInfo struct {
	Direction Direction
	// Index counts the packets of this direction from 0.
	Index uint64
	// Kind is backend.KindWrite, backend.KindDatagram, or what the device itself sends:
	// backend.KindCongestion, a notification, or backend.KindTrimmed, the headers of a trimmed write that are sent back.
	Kind backend.Kind
	// Channel is the channel of the sending QP, SrcQPN and DstQPN are the numbers of both QPs.
	Channel        int
	SrcQPN, DstQPN uint32
	// VA, RKey and Imm are those of a write.
	VA        uint64
	RKey, Imm uint32
	// Length is the payload's length in bytes.
	Length uint32
	// Data is the payload, nil for memory that has only a size. It is valid
	// during the call and must not be changed.
	Data []byte
}

// A Verdict is what a filter wants to happen to a packet: Deliver, Drop,
// Duplicate, or Hold(d).
type Verdict int64

// Verdicts.
const (
	// Deliver leaves the packet to the link, which may lose it yet.
	Deliver Verdict = 0
	// Drop loses the packet.
	Drop Verdict = -1
	// Duplicate makes it arrive twice, unless the link loses it.
	Duplicate Verdict = -2
)

// Hold makes the packet arrive later by d, which must be positive, so that
// others overtake it.
func Hold(d units.Duration) Verdict { return Verdict(max(d, 0)) }

// SetFilter has f decide about each packet that leaves a device from now on; nil
// lets all pass. f must not call the network or its devices. The link's own
// draws for the packet are made in any case, so that a filter shifts none of
// them.
func (n *Network) SetFilter(f func(PacketInfo) Verdict) { n.filter = f }
