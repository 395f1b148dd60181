// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// BTH is a base transport header (IBTA 9.2), the first header of every packet.
//
//	 0                   1                   2                   3
//	+---------------+-+-+---+-------+-------------------------------+
//	|    opcode     |S|M|Pad| TVer  |             P_Key             |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B|   resv6   |                    DestQP                     |
//	+-+-+-----------+-----------------------------------------------+
//	|A|   resv7     |                     PSN                       |
//	+-+-------------+-----------------------------------------------+
type BTH []byte

// BTHSize is the length of a BTH in bytes.
const BTHSize = 12

// Offsets of fields in a BTH.
const (
	bthOpcode = 0
	bthFlags  = 1 // SE, M, pad, TVer
	bthPKey   = 2
	bthECN    = 4 // FECN, BECN, resv6: resv8a before Annex 17, and not covered by the ICRC
	bthDestQP = 4 // the low three bytes of this word
	bthAckReq = 8
	bthPSN    = 8 // the low three bytes of this word
)

const (
	flagSolicited = 0x80
	flagMigReq    = 0x40
	padShift      = 4
	padMask       = 3
	tverMask      = 0x0f
	flagFECN      = 0x80
	flagBECN      = 0x40
	moreMask      = 0x3f
	flagAckReq    = 0x80
	mask24        = 1<<24 - 1
)

// A QPN is a 24-bit queue pair number.
type QPN uint32

// QPNMask covers the bits of a QPN.
const QPNMask = mask24

// ParseBTH returns the BTH at the start of b, or ErrShort.
func ParseBTH(b []byte) (BTH, error) {
	if len(b) < BTHSize {
		return nil, ErrShort
	}
	return BTH(b[:BTHSize:BTHSize]), nil
}

// Opcode returns the operation and service.
func (h BTH) Opcode() Opcode { return Opcode(h[bthOpcode]) }

// Solicited returns the solicited event bit (SE).
func (h BTH) Solicited() bool { return h[bthFlags]&flagSolicited != 0 }

// MigReq returns the migration request bit (M).
func (h BTH) MigReq() bool { return h[bthFlags]&flagMigReq != 0 }

// PadCount returns the number of pad bytes after the payload, 0 to 3.
func (h BTH) PadCount() int { return int(h[bthFlags] >> padShift & padMask) }

// TVer returns the transport header version.
func (h BTH) TVer() uint8 { return h[bthFlags] & tverMask }

// PKey returns the partition key.
func (h BTH) PKey() PKey { return PKey(binary.BigEndian.Uint16(h[bthPKey:])) }

// FECN returns the forward explicit congestion notification bit. RoCEv2 uses the IP header's bits
// instead, and sends it as 0.
func (h BTH) FECN() bool { return h[bthECN]&flagFECN != 0 }

// BECN returns the backward explicit congestion notification bit, set in a CNP.
func (h BTH) BECN() bool { return h[bthECN]&flagBECN != 0 }

// More returns the six reserved bits beside BECN, in which a header-only packet says how many other writes it names
// (UCWriteImm.More). They are 0 in all other packets.
func (h BTH) More() uint8 { return h[bthECN] & moreMask }

// DestQP returns the destination queue pair.
func (h BTH) DestQP() QPN { return QPN(binary.BigEndian.Uint32(h[bthDestQP:]) & mask24) }

// AckReq returns the acknowledge request bit (A).
func (h BTH) AckReq() bool { return h[bthAckReq]&flagAckReq != 0 }

// PSN returns the packet sequence number.
func (h BTH) PSN() PSN { return PSN(binary.BigEndian.Uint32(h[bthPSN:]) & mask24) }

// SetOpcode writes the opcode.
func (h BTH) SetOpcode(o Opcode) { h[bthOpcode] = byte(o) }

// SetFlags writes SE, M and the pad count (modulo 4), with TVer 0.
func (h BTH) SetFlags(solicited, migReq bool, pad int) {
	h[bthFlags] = bit(solicited, flagSolicited) | bit(migReq, flagMigReq) | byte(pad&padMask)<<padShift
}

// SetPKey writes the partition key.
func (h BTH) SetPKey(k PKey) { binary.BigEndian.PutUint16(h[bthPKey:], uint16(k)) }

// SetDestQP writes the low 24 bits of q, and clears FECN, BECN and the reserved bits beside it.
func (h BTH) SetDestQP(q QPN) { binary.BigEndian.PutUint32(h[bthDestQP:], uint32(q)&mask24) }

// SetECN writes FECN and BECN, and leaves the rest as it is.
func (h BTH) SetECN(fecn, becn bool) {
	h[bthECN] = h[bthECN]&^(flagFECN|flagBECN) | bit(fecn, flagFECN) | bit(becn, flagBECN)
}

// SetMore writes the low six bits of n to the reserved bits beside BECN, and leaves the rest as it is.
func (h BTH) SetMore(n uint8) { h[bthECN] = h[bthECN]&^moreMask | n&moreMask }

// SetPSN writes the low 24 bits of psn and the acknowledge request bit, and clears the reserved bits
// between them.
func (h BTH) SetPSN(psn PSN, ackReq bool) {
	binary.BigEndian.PutUint32(h[bthPSN:], uint32(psn)&mask24|uint32(bit(ackReq, flagAckReq))<<24)
}

func bit(on bool, mask byte) byte {
	if on {
		return mask
	}
	return 0
}
