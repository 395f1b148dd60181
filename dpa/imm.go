// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Split is how the 32-bit immediate is divided: message slot, packet offset,
// fragment of the user immediate, from the highest bits down (paper, 3.2.4).
type Split struct {
	SlotBits, OffsetBits, FragmentBits uint8
}

// DefaultSplit is the paper's: 1024 slots, 2^18 packets, 4-bit fragments.
var DefaultSplit = Split{10, 18, 4}

// Check refuses splits that make no sense.
func (s Split) Check() error {
	switch {
	case int(s.SlotBits)+int(s.OffsetBits)+int(s.FragmentBits) != 32:
		return operr.New("check", "immediate split", "%v: the bits must sum to 32", s)
	case s.SlotBits < 1 || s.SlotBits > 16:
		return operr.New("check", "immediate split", "%v: 1 to 16 slot bits", s)
	case s.OffsetBits < 8 || s.OffsetBits > 30:
		return operr.New("check", "immediate split", "%v: 8 to 30 offset bits", s)
	case s.FragmentBits != 0 && 32%s.FragmentBits != 0 || s.FragmentBits > 8 || s.FragmentBits == 1:
		return operr.New("check", "immediate split", "%v: fragments of 0, 2, 4 or 8 bits", s)
	}
	return nil
}

// String prints the split as in the paper, such as "10|18|4".
func (s Split) String() string {
	return fmt.Sprintf("%d|%d|%d", s.SlotBits, s.OffsetBits, s.FragmentBits)
}

// Slots is the number of message slots.
func (s Split) Slots() int { return 1 << s.SlotBits }

// MaxPackets is the largest number of packets in a message.
func (s Split) MaxPackets() int { return 1 << s.OffsetBits }

// Fragments is the number of packets that carry the user immediate. A zero-length
// packet at this offset says that there is one.
func (s Split) Fragments() int {
	if s.FragmentBits == 0 {
		return 0
	}
	return 32 / int(s.FragmentBits)
}

// Imm encodes an immediate; fragment bits beyond the split's are cut off.
func (s Split) Imm(slot, offset int, fragment uint32) uint32 {
	return uint32(slot)<<(s.OffsetBits+s.FragmentBits) | uint32(offset)<<s.FragmentBits | fragment&(1<<s.FragmentBits-1)
}

// Parse is the inverse of Imm.
func (s Split) Parse(imm uint32) (slot, offset int, fragment uint32) {
	fragment = imm & (1<<s.FragmentBits - 1)
	return int(imm >> (s.OffsetBits + s.FragmentBits)), int(imm >> s.FragmentBits & (1<<s.OffsetBits - 1)), fragment
}

// Fragment is the part of the user immediate that packet offset carries.
func (s Split) Fragment(imm uint32, offset int) uint32 {
	if offset >= s.Fragments() {
		return 0
	}
	return imm >> (uint(offset) * uint(s.FragmentBits)) & (1<<s.FragmentBits - 1)
}

// Probes: a zero-length packet whose offset is at or above ProbeBase is a
// probe, which only moves its channel's mark. Fragments, the other zero-length packets, have offsets below: at most
// 16 and the one that says that there is an immediate.
const (
	ProbeBase = 32
	NumProbes = 16
)
