// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// Size returns the UDP payload length of p in bytes, with pad and ICRC, or 0 if p.Opcode is unknown.
func (p *Packet) Size() int {
	l := &layouts[p.Opcode]
	if l.size == 0 {
		return 0
	}
	return PacketSize(int(l.size), len(p.Payload))
}

// Encode writes the whole packet to b and returns its length: headers, payload, zero pad, and p.ICRC.
// To compute the ICRC, call Seed.Seal on the result. It refuses what Parse would refuse, and fields
// that don't fit (ErrField); b is then unchanged. Payload and b may not overlap, except that the
// payload may already be in its place. Encode does not allocate.
func (p *Packet) Encode(b []byte) (int, error) {
	size := p.Size()
	if size > len(b) {
		return 0, ErrShort
	}
	n, err := p.EncodeHeaders(b)
	if err != nil {
		return 0, err
	}
	n += copy(b[n:], p.Payload)
	PutTrailer(b[n:], len(p.Payload), p.ICRC)
	return size, nil
}

// EncodeHeaders writes what precedes the payload to b and returns its length. The pad count and the
// checks are those of a packet that carries p.Payload, which EncodeHeaders doesn't read: a sender that
// gathers puts the payload and PutTrailer's bytes behind. Errors are those of Encode.
func (p *Packet) EncodeHeaders(b []byte) (int, error) {
	l := &layouts[p.Opcode]
	if l.size == 0 {
		return 0, ErrOpcode
	}
	if len(b) < int(l.size) {
		return 0, ErrShort
	}
	if !p.fits(l.headers) {
		return 0, ErrField
	}
	if err := l.check(len(p.Payload), p.DMALength); err != nil {
		return 0, err
	}
	h := BTH(b[:BTHSize])
	h.SetOpcode(p.Opcode)
	h.SetFlags(p.Solicited, p.MigReq, PadCount(len(p.Payload)))
	h.SetPKey(p.PKey)
	h.SetDestQP(p.DestQP)
	h.SetECN(p.FECN, p.BECN)
	h.SetPSN(p.PSN, p.AckReq)
	p.encodeExtended(l.headers, b[BTHSize:l.size])
	return int(l.size), nil
}

// fits reports whether the 24-bit fields that are going to be written have 24 bits.
func (p *Packet) fits(s headerSet) bool {
	v := uint32(p.DestQP) | uint32(p.PSN)
	if s&hasDETH != 0 {
		v |= uint32(p.SrcQP)
	}
	if s&hasAETH != 0 {
		v |= p.MSN
	}
	return v <= mask24
}

// encodeExtended is the reverse of parseExtended.
func (p *Packet) encodeExtended(s headerSet, b []byte) {
	if s&hasDETH != 0 {
		DETH(b[:DETHSize]).Set(p.QKey, p.SrcQP)
		b = b[DETHSize:]
	}
	if s&hasFETH != 0 {
		binary.BigEndian.PutUint32(b, p.Flush)
		b = b[FETHSize:]
	}
	if s&hasRETH != 0 {
		RETH(b[:RETHSize]).Set(p.VA, p.RKey, p.DMALength)
		b = b[RETHSize:]
	}
	if s&hasAtomicETH != 0 {
		AtomicETH(b[:AtomicETHSize]).Set(p.VA, p.RKey, p.SwapAdd, p.Compare)
		b = b[AtomicETHSize:]
	}
	if s&hasAETH != 0 {
		AETH(b[:AETHSize]).Set(p.Syndrome, p.MSN)
		b = b[AETHSize:]
	}
	if s&hasAtomicAckETH != 0 {
		binary.BigEndian.PutUint64(b, p.AtomicAck)
		b = b[AtomicAckETHSize:]
	}
	if s&hasImmDt != 0 {
		ImmDt(b[:ImmDtSize]).Set(p.Imm)
		b = b[ImmDtSize:]
	}
	if s&hasIETH != 0 {
		binary.BigEndian.PutUint32(b, p.Invalidate)
	}
}

// PutTrailer writes to b what follows a payload of n bytes: zero pad and the ICRC, in the wire's order
// (the CRC-32 value little-endian, IBTA 7.8.1). It returns the length, 4 to TrailerMax,
// and panics if b is shorter than that.
func PutTrailer(b []byte, n int, icrc uint32) int {
	pad := PadCount(n)
	_ = b[pad+ICRCSize-1]
	clear(b[:pad])
	binary.LittleEndian.PutUint32(b[pad:], icrc)
	return pad + ICRCSize
}
