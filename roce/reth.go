// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// RETH is an RDMA extended transport header (IBTA 9.3.3): where a WRITE goes or a READ comes from.
type RETH []byte

// RETHSize is the length of a RETH in bytes.
const RETHSize = 16

// Offsets of fields in a RETH.
const (
	rethVA        = 0
	rethRKey      = 8
	rethDMALength = 12
)

// ParseRETH returns the RETH at the start of b, or ErrShort.
func ParseRETH(b []byte) (RETH, error) {
	if len(b) < RETHSize {
		return nil, ErrShort
	}
	return RETH(b[:RETHSize:RETHSize]), nil
}

// VA returns the virtual address in the responder's memory.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h[rethVA:]) }

// RKey returns the key of the responder's memory.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[rethRKey:]) }

// DMALength returns the length of the whole message in bytes.
func (h RETH) DMALength() uint32 { return binary.BigEndian.Uint32(h[rethDMALength:]) }

// Set writes all fields.
func (h RETH) Set(va uint64, rkey, dmaLength uint32) {
	binary.BigEndian.PutUint64(h[rethVA:], va)
	binary.BigEndian.PutUint32(h[rethRKey:], rkey)
	binary.BigEndian.PutUint32(h[rethDMALength:], dmaLength)
}
