// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"encoding/binary"

	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Tag is what a packet says of itself in the two low bits of its DSCP (section 4.2).
type Tag uint8

// The tags.
const (
	Other      Tag = iota // no packet of DCP
	Ack                   // may be dropped
	Data                  // may be trimmed
	HeaderOnly            // has been
)

// String is the tag's name.
func (t Tag) String() string { return [...]string{"other", "ack", "data", "header-only"}[t&3] }

// TOS is the ToS octet of IPv4, or traffic class of IPv6, with the tag set in tos.
func (t Tag) TOS(tos uint8) uint8 { return tos&^tagMask | uint8(t&3)<<tagShift }

// TagOf is the tag in a ToS octet or traffic class.
func TagOf(tos uint8) Tag { return Tag(tos >> tagShift & 3) }

const (
	tagShift = 2
	tagMask  = 3 << tagShift

	ethSize  = 14
	ipv4Size = 20
	ipv6Size = 40
	udpSize  = 8
	rocePort = 4791

	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
	protoUDP = 17
)

// Opcodes of DCP's wire, in the range that IBTA 9.2.1 leaves to manufacturers: other NICs drop them.
const (
	OpWrite    roce.Opcode = 0xc0
	OpWriteImm roce.Opcode = 0xc1
	OpSend     roce.Opcode = 0xc2
	OpSendImm  roce.Opcode = 0xc3
)

// ETHSize is the size of DCP's extended header: message number (24 bits), round (8), header check (16).
const ETHSize = 6

// HeaderSize is the size of a header-only packet of DCP over Ethernet and IPv4. The paper's, without round and
// check, is Published; Ethernet pads it to the same.
const (
	HeaderSize units.Bytes = ethSize + ipv4Size + udpSize + roce.BTHSize + ETHSize
	Published  units.Bytes = 57
)

const (
	rethSize  = 16
	immdtSize = 4
)

// keepOf is how much of the BTH and what follows a header-only packet has; 0: the opcode can't be trimmed.
func keepOf(o roce.Opcode) int {
	switch o {
	case OpWrite, OpWriteImm, OpSend, OpSendImm:
		return roce.BTHSize + ETHSize
	case roce.UCWriteOnly:
		return roce.BTHSize + rethSize
	case roce.UCWriteOnlyImm:
		return roce.BTHSize + rethSize + immdtSize
	}
	return 0
}

// A Layout is what Parse finds in a frame.
type Layout struct {
	Tag Tag
	// UDP is where the UDP header begins, End where the IP packet ends: Ethernet may have padded it.
	UDP, End int
	V6       bool
	Opcode   roce.Opcode
}

// Parse finds a RoCEv2 packet in an Ethernet frame. It knows IPv4 without options, not fragmented, and IPv6
// without extension headers, whose lengths agree; ok is false for all else, which a switch leaves alone.
func Parse(b []byte) (l Layout, ok bool) {
	if len(b) < ethSize {
		return l, false
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case typeIPv4:
		if len(b) < ethSize+ipv4Size || b[14] != 0x45 || b[23] != protoUDP || binary.BigEndian.Uint16(b[20:])&0x3fff != 0 {
			return l, false
		}
		l.UDP, l.End, l.Tag = ethSize+ipv4Size, ethSize+int(binary.BigEndian.Uint16(b[16:])), TagOf(b[15])
	case typeIPv6:
		if len(b) < ethSize+ipv6Size || b[14]>>4 != 6 || b[20] != protoUDP {
			return l, false
		}
		l.UDP, l.End, l.V6 = ethSize+ipv6Size, ethSize+ipv6Size+int(binary.BigEndian.Uint16(b[18:])), true
		l.Tag = TagOf(b[14]<<4 | b[15]>>4)
	default:
		return l, false
	}
	if l.End > len(b) || l.End < l.UDP+udpSize+roce.BTHSize {
		return l, false
	}
	udp := b[l.UDP:]
	if binary.BigEndian.Uint16(udp[2:]) != rocePort || int(binary.BigEndian.Uint16(udp[4:])) != l.End-l.UDP {
		return l, false
	}
	l.Opcode = roce.Opcode(udp[udpSize])
	return l, true
}

// Length is how long the frame would be when trimmed, keep bytes or with keep 0 as many as its opcode needs; 0 if
// there is nothing to cut off, or the rest would not say what has been lost.
func (l *Layout) Length(keep int) int {
	n := keep
	if keep == 0 {
		k := keepOf(l.Opcode)
		if k == 0 {
			return 0
		}
		n = l.UDP + udpSize + k
	}
	if n < l.UDP+udpSize+roce.BTHSize || n >= l.End {
		return 0
	}
	return n
}

// Cut trims b, in which Parse has found l, to n bytes: tag, lengths and checksums are set, ECN and all else stay. With
// IPv4 the UDP checksum is 0, none; IPv6 has to have one.
func (l *Layout) Cut(b []byte, n int) []byte {
	if l.V6 {
		b[15] = b[15]&^(tagMask<<4) | uint8(HeaderOnly)<<(tagShift+4)
	} else {
		b[15] = HeaderOnly.TOS(b[15])
	}
	return l.resize(b, n)
}

// resize makes b n bytes long: lengths and checksums are set.
func (l *Layout) resize(b []byte, n int) []byte {
	b = b[:n]
	udp := b[l.UDP:]
	binary.BigEndian.PutUint16(udp[4:], uint16(n-l.UDP))
	udp[6], udp[7] = 0, 0
	if l.V6 {
		binary.BigEndian.PutUint16(b[18:], uint16(n-l.UDP))
		sum := checksum(b[ethSize+8:], uint32(n-l.UDP)+protoUDP) // addresses and UDP
		if sum == 0 {
			sum = 0xffff // 0 would mean none (RFC 8200, section 8.1)
		}
		binary.BigEndian.PutUint16(udp[6:], sum)
		return b
	}
	binary.BigEndian.PutUint16(b[16:], uint16(n-ethSize))
	b[24], b[25] = 0, 0
	binary.BigEndian.PutUint16(b[24:], checksum(b[ethSize:ethSize+ipv4Size], 0))
	return b
}

// checksum is the Internet checksum (RFC 1071) of b, with what the caller has summed up already.
func checksum(b []byte, sum uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		sum += uint32(b[0]) << 8
	}
	sum = sum&0xffff + sum>>16
	sum += sum >> 16
	return ^uint16(sum)
}
