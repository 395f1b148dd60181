// SPDX-License-Identifier: Apache-2.0

package roce

import "encoding/binary"

// idUnshift[i] divides a register difference by the powers of x that lie between the end of an IPv4
// identification's two bytes and the end of a packet whose UDP payload, ICRC included, is 4i bytes.
var idUnshift = func() (t [MaxPacket/4 + 1]uint32) {
	const afterID = IPv4HeaderSize - (ip4ID + 2) + UDPHeaderSize // up to the BTH
	r := crcOne
	for range afterID + 2 {
		r = crcUnbyte(r)
	}
	for i := ICRCSize / 4; i < len(t); i++ {
		t[i] = r
		for range 4 {
			r = crcUnbyte(r)
		}
	}
	return t
}()

// SolveIPv4ID finds the identification that an IPv4 packet must have been sent with. The ICRC covers
// that field and a UDP socket doesn't show it. n is the length of the UDP payload, ICRC included; diff
// is the ICRC computed with identification 0, XOR the one received.
//
// Each identification makes its own difference, whatever the length, because multiplying by a power of
// x is reversible modulo the generator. So of the 2^32 differences 2^16 have a solution, exactly one
// each, and ok is false for all others: what is left is a 16-bit check, which lets random corruption
// pass once in 65536. A receiver that sees many packets with identification 0 from a peer should
// insist on it, and keep all 32 bits.
//
// n must be a multiple of 4 between MinPacket and MaxPacket, as in every packet that Parse accepts; else
// ok is false.
func SolveIPv4ID(n int, diff uint32) (id uint16, ok bool) {
	if n < MinPacket || n > MaxPacket || n%4 != 0 {
		return 0, false
	}
	// The two bytes entered the register's low 16 bits, first byte lowest, before they were shifted.
	r := crcMul(idUnshift[n/4], diff)
	return uint16(r)<<8 | uint16(r)>>8, r>>16 == 0
}

// VerifyAnyID is Seed.Verify for an IPv4 packet with unknown identification: it tries 0 first, and then
// solves for it as SolveIPv4ID does, with its weaker check. On IPv6 it is Flow.Seed and Verify.
func (f Flow) VerifyAnyID(packet []byte) (id uint16, ok bool) {
	if len(packet) < MinPacket {
		return 0, false
	}
	end := len(packet) - ICRCSize
	diff := f.Seed(len(packet)).Sum(packet[:end]) ^ binary.LittleEndian.Uint32(packet[end:])
	if diff == 0 || f.ipv6 {
		return 0, diff == 0
	}
	return SolveIPv4ID(len(packet), diff)
}
