// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// ImmDt is the immediate data header (IBTA 9.3). The value is opaque to the wire; this package reads
// and writes it big-endian, as the verbs' network-order immediate is.
type ImmDt []byte

// ImmDtSize is the length of an ImmDt in bytes.
const ImmDtSize = 4

// ParseImmDt returns the ImmDt at the start of b, or ErrShort.
func ParseImmDt(b []byte) (ImmDt, error) {
	if len(b) < ImmDtSize {
		return nil, ErrShort
	}
	return ImmDt(b[:ImmDtSize:ImmDtSize]), nil
}

// Value returns the immediate.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }

// Set writes the immediate.
func (h ImmDt) Set(v uint32) { binary.BigEndian.PutUint32(h, v) }
