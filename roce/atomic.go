// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// Lengths in bytes of the headers that only RC uses.
const (
	AtomicETHSize    = 28
	AtomicAckETHSize = 8
	IETHSize         = 4
	FETHSize         = 4
)

// AtomicETH is the header of CmpSwap and FetchAdd (IBTA 9.3.4).
type AtomicETH []byte

// Offsets of fields in an AtomicETH.
const (
	atomicVA      = 0
	atomicRKey    = 8
	atomicSwap    = 12
	atomicCompare = 20
)

// ParseAtomicETH returns the AtomicETH at the start of b, or ErrShort.
func ParseAtomicETH(b []byte) (AtomicETH, error) {
	if len(b) < AtomicETHSize {
		return nil, ErrShort
	}
	return AtomicETH(b[:AtomicETHSize:AtomicETHSize]), nil
}

// VA returns the virtual address in the responder's memory.
func (h AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[atomicVA:]) }

// RKey returns the key of the responder's memory.
func (h AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[atomicRKey:]) }

// Swap returns the value to store or to add.
func (h AtomicETH) Swap() uint64 { return binary.BigEndian.Uint64(h[atomicSwap:]) }

// Compare returns the value to compare with.
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[atomicCompare:]) }

// Set writes all fields.
func (h AtomicETH) Set(va uint64, rkey uint32, swap, compare uint64) {
	binary.BigEndian.PutUint64(h[atomicVA:], va)
	binary.BigEndian.PutUint32(h[atomicRKey:], rkey)
	binary.BigEndian.PutUint64(h[atomicSwap:], swap)
	binary.BigEndian.PutUint64(h[atomicCompare:], compare)
}
