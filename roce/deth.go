// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// DETH is a datagram extended transport header (IBTA 9.3.2).
type DETH []byte

// DETHSize is the length of a DETH in bytes.
const DETHSize = 8

// GRHSize is the space that a UD receive buffer has before the payload: a verbs user finds a global
// route header there (for RoCEv2 over IPv4, 20 bytes of nothing and the IPv4 header). It is never on
// the wire of RoCEv2.
const GRHSize = 40

// Offsets of fields in a DETH.
const (
	dethQKey  = 0
	dethSrcQP = 4 // the low three bytes of this word; the first is reserved
)

// ParseDETH returns the DETH at the start of b, or ErrShort.
func ParseDETH(b []byte) (DETH, error) {
	if len(b) < DETHSize {
		return nil, ErrShort
	}
	return DETH(b[:DETHSize:DETHSize]), nil
}

// QKey returns the queue key.
func (h DETH) QKey() QKey { return QKey(binary.BigEndian.Uint32(h[dethQKey:])) }

// SrcQP returns the sender's queue pair.
func (h DETH) SrcQP() QPN { return QPN(binary.BigEndian.Uint32(h[dethSrcQP:]) & mask24) }

// Set writes all fields; of src the low 24 bits.
func (h DETH) Set(key QKey, src QPN) {
	binary.BigEndian.PutUint32(h[dethQKey:], uint32(key))
	binary.BigEndian.PutUint32(h[dethSrcQP:], uint32(src)&mask24)
}
