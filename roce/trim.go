// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"math"
)

// TrimmedSize is the least length in bytes of the UDP payload that a switch must leave of an RDMA WRITE Only with
// Immediate for its receiver to know what is missing: BTH, RETH and ImmDt. Ethernet's frame is then 74 bytes long over
// IPv4, 94 over IPv6. A switch may leave more.
const TrimmedSize = UCWriteImmHeaders

// ReturnedSize is the length in bytes of the UDP payload with which a receiver sends such headers back: with
// an ICRC of their own.
const ReturnedSize = UCWriteImmHeaders + ICRCSize

// MostTrimmed is how many writes one header-only packet names at most: its own and UCWriteImm.More others, for which the six
// reserved bits beside BECN have room. A sender leaves them 0, and the ICRC doesn't cover them.
const MostTrimmed = 64

// NameSize is the length in bytes of the name of each further write, behind the headers: the low half of its virtual address, and
// its immediate. Everything else is as in the headers.
const NameSize = 8

// PutName writes the i-th name, from 0 on, of the header-only packet b: the low half of va, and imm. It panics if b is too short.
func PutName(b []byte, i int, va uint64, imm uint32) {
	b = b[UCWriteImmHeaders+i*NameSize:][:NameSize]
	binary.BigEndian.PutUint32(b, uint32(va))
	binary.BigEndian.PutUint32(b[4:], imm)
}

// Named is the write that the i-th name, from 0 on, of the header-only packet b stands for, whose headers are w. It panics
// unless i is less than w.More, of which ParseTrimmed has made sure that they are there.
func (w *UCWriteImm) Named(b []byte, i int) UCWriteImm {
	b = b[UCWriteImmHeaders+i*NameSize:][:NameSize]
	x := *w
	x.VA = w.VA&^math.MaxUint32 | uint64(binary.BigEndian.Uint32(b))
	x.Imm, x.More = binary.BigEndian.Uint32(b[4:]), 0
	return x
}

// ParseTrimmed reads what a switch has left of a UC RDMA WRITE Only with Immediate, b being the UDP payload: headers
// whose RETH tells of more payload than is there. That is all there is to see that it has been cut, and the
// ICRC is gone with the payload. The same headers on their way back, of which Returned tells, have one, which is not
// checked here.
//
// A switch may have put the names of More other writes behind the headers (PutName, Named); nothing else is there then.
//
// The error is ErrShort, ErrVersion, ErrOpcode or ErrDMALength for what is too short, or is nothing of the kind, and
// ErrLength for a packet that is whole, or isn't as long as its names. It doesn't allocate.
func ParseTrimmed(b []byte) (w UCWriteImm, err error) {
	if len(b) < TrimmedSize {
		return w, ErrShort
	}
	h := BTH(b[:BTHSize])
	switch {
	case h.TVer() != 0:
		return w, ErrVersion
	case h.Opcode() != UCWriteOnlyImm:
		return w, ErrOpcode
	}
	r := RETH(b[BTHSize : BTHSize+RETHSize])
	w = UCWriteImm{
		VA: r.VA(), RKey: r.RKey(), Imm: ImmDt(b[BTHSize+RETHSize : UCWriteImmHeaders]).Value(), Length: r.DMALength(),
		DestQP: h.DestQP(), PSN: h.PSN(), PKey: h.PKey(), Solicited: h.Solicited(), MigReq: h.MigReq(), Returned: h.BECN(), More: h.More(),
	}
	names := int(w.More) * NameSize
	switch {
	case w.Length == 0 || w.Length > maxMTU:
		return w, ErrDMALength
	case w.Returned && len(b) != ReturnedSize+names,
		!w.Returned && w.More > 0 && len(b) != TrimmedSize+names,
		!w.Returned && w.More == 0 && len(b) >= PacketSize(UCWriteImmHeaders, int(w.Length)):
		return w, ErrLength
	}
	return w, nil
}
