// SPDX-License-Identifier: Apache-2.0

package roce

// TrimmedSize is the least length in bytes of the UDP payload that a switch must leave of an RDMA WRITE Only with
// Immediate for its receiver to know what is missing: BTH, RETH and ImmDt. Ethernet's frame is then 74 bytes long over
// IPv4, 94 over IPv6. A switch may leave more.
const TrimmedSize = UCWriteImmHeaders

// ReturnedSize is the length in bytes of the UDP payload with which a receiver sends such headers back: with
// an ICRC of their own.
const ReturnedSize = UCWriteImmHeaders + ICRCSize

// ParseTrimmed reads what a switch has left of a UC RDMA WRITE Only with Immediate, b being the UDP payload: headers
// whose RETH tells of more payload than is there. That is all there is to see that it has been cut, and the
// ICRC is gone with the payload. The same headers on their way back, of which Returned tells, have one, which is not
// checked here.
//
// The error is ErrShort, ErrVersion, ErrOpcode or ErrDMALength for what is too short, or is nothing of the kind, and
// ErrLength for a packet that is whole. It doesn't allocate.
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
		DestQP: h.DestQP(), PSN: h.PSN(), PKey: h.PKey(), Solicited: h.Solicited(), MigReq: h.MigReq(), Returned: h.BECN(),
	}
	switch {
	case w.Length == 0 || w.Length > maxMTU:
		return w, ErrDMALength
	case len(b) >= PacketSize(UCWriteImmHeaders, int(w.Length)), w.Returned && len(b) != ReturnedSize:
		return w, ErrLength
	}
	return w, nil
}
