// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// A Packet is the parsed value of one packet. Parse fills it, Encode writes it. Fields of headers that
// the opcode doesn't have are zero after Parse and ignored by Encode. Reserved bits are ignored by
// Parse and sent as zero, as the specification asks.
type Packet struct {
	// Payload is what the packet carries, without pad; for a CNP its sixteen reserved bytes. After
	// Parse it is a part of the parsed datagram.
	Payload []byte

	VA        uint64 // RETH, AtomicETH
	SwapAdd   uint64 // AtomicETH
	Compare   uint64 // AtomicETH
	AtomicAck uint64 // AtomicAckETH: the original value

	DestQP QPN
	PSN    PSN

	RKey       uint32 // RETH, AtomicETH
	DMALength  uint32 // RETH: bytes of the whole message
	Imm        uint32 // ImmDt
	QKey       QKey   // DETH
	SrcQP      QPN    // DETH
	MSN        uint32 // AETH, 24 bits
	Invalidate uint32 // IETH: the rkey to invalidate
	Flush      uint32 // FETH: placement type and selectivity level

	// ICRC is the trailer as a CRC-32 value; see Seed.
	ICRC uint32

	PKey      PKey
	Opcode    Opcode
	Syndrome  Syndrome // AETH
	Solicited bool
	MigReq    bool
	FECN      bool
	BECN      bool
	AckReq    bool
}

// Parse reads b, a UDP payload from the BTH to the ICRC. It accepts any b: the error is ErrShort,
// ErrVersion, ErrOpcode, ErrPad, ErrLength or ErrDMALength, and then p's content is unspecified. It
// doesn't check the ICRC (Seed.Verify does), nor anything that depends on a queue pair.
//
// p.Payload is a part of b. Parse does not allocate.
func (p *Packet) Parse(b []byte) error {
	if len(b) < MinPacket {
		return ErrShort
	}
	h := BTH(b[:BTHSize])
	op := h.Opcode()
	l := &layouts[op]
	if h.TVer() != 0 {
		return ErrVersion // IBTA 9.6.1.1
	}
	if l.size == 0 {
		return ErrOpcode
	}
	end := len(b) - ICRCSize
	room := end - int(l.size)
	if room < 0 {
		return ErrShort
	}
	if len(b)%4 != 0 {
		return ErrLength
	}
	pad := h.PadCount()
	if pad > room {
		return ErrPad
	}
	*p = Packet{
		Opcode:    op,
		Solicited: h.Solicited(),
		MigReq:    h.MigReq(),
		PKey:      h.PKey(),
		FECN:      h.FECN(),
		BECN:      h.BECN(),
		DestQP:    h.DestQP(),
		AckReq:    h.AckReq(),
		PSN:       h.PSN(),
		Payload:   b[l.size : end-pad : end-pad],
		ICRC:      binary.LittleEndian.Uint32(b[end:]),
	}
	if pad != 0 && (l.payload == payloadNone || l.payload == payloadFull || l.payload == payloadCNP) {
		return ErrPad
	}
	p.parseExtended(l.headers, b[BTHSize:l.size])
	return l.check(len(p.Payload), p.DMALength)
}

// parseExtended reads the headers after the BTH; b holds them exactly.
func (p *Packet) parseExtended(s headerSet, b []byte) {
	if s&hasDETH != 0 {
		h := DETH(b[:DETHSize])
		p.QKey, p.SrcQP = h.QKey(), h.SrcQP()
		b = b[DETHSize:]
	}
	if s&hasFETH != 0 {
		p.Flush = binary.BigEndian.Uint32(b)
		b = b[FETHSize:]
	}
	if s&hasRETH != 0 {
		h := RETH(b[:RETHSize])
		p.VA, p.RKey, p.DMALength = h.VA(), h.RKey(), h.DMALength()
		b = b[RETHSize:]
	}
	if s&hasAtomicETH != 0 {
		h := AtomicETH(b[:AtomicETHSize])
		p.VA, p.RKey, p.SwapAdd, p.Compare = h.VA(), h.RKey(), h.Swap(), h.Compare()
		b = b[AtomicETHSize:]
	}
	if s&hasAETH != 0 {
		h := AETH(b[:AETHSize])
		p.Syndrome, p.MSN = h.Syndrome(), h.MSN()
		b = b[AETHSize:]
	}
	if s&hasAtomicAckETH != 0 {
		p.AtomicAck = binary.BigEndian.Uint64(b)
		b = b[AtomicAckETHSize:]
	}
	if s&hasImmDt != 0 {
		p.Imm = ImmDt(b[:ImmDtSize]).Value()
		b = b[ImmDtSize:]
	}
	if s&hasIETH != 0 {
		p.Invalidate = binary.BigEndian.Uint32(b)
	}
}
