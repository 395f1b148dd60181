// SPDX-License-Identifier: Apache-2.0

package netnstest

import (
	"encoding/binary"
	"net/netip"
)

const (
	protoICMP   = 1
	protoUDP    = 17
	protoICMPv6 = 58
)

// TooBig is the IP packet by which a router, from, would tell the sender of UDP datagrams from src to dst that they
// don't fit into packets of mtu bytes: RFC 792 with RFC 1191, or RFC 4443.
func TooBig(from netip.Addr, src, dst netip.AddrPort, mtu int) []byte {
	quoted := udpHeaders(src, dst)
	m := make([]byte, 8, 8+len(quoted))
	if from.Is4() {
		m[0], m[1] = 3, 4 // destination unreachable, fragmentation needed
		binary.BigEndian.PutUint16(m[6:], uint16(mtu))
		m = append(m, quoted...)
		binary.BigEndian.PutUint16(m[2:], checksum(m))
		return append(ipHeader(from, src.Addr(), protoICMP, len(m)), m...)
	}
	m[0] = 2 // packet too big
	binary.BigEndian.PutUint32(m[4:], uint32(mtu))
	m = append(m, quoted...)
	pseudo := append(from.AsSlice(), src.Addr().AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(m)))
	pseudo = append(pseudo, 0, 0, 0, protoICMPv6)
	binary.BigEndian.PutUint16(m[2:], checksum(append(pseudo, m...)))
	return append(ipHeader(from, src.Addr(), protoICMPv6, len(m)), m...)
}

// udpHeaders are the headers of a datagram with 1400 bytes.
func udpHeaders(src, dst netip.AddrPort) []byte {
	const length = 8 + 1400
	u := binary.BigEndian.AppendUint16(nil, src.Port())
	u = binary.BigEndian.AppendUint16(u, dst.Port())
	u = binary.BigEndian.AppendUint16(u, length)
	u = append(u, 0, 0)
	return append(ipHeader(src.Addr(), dst.Addr(), protoUDP, length), u...)
}

func ipHeader(src, dst netip.Addr, proto byte, payload int) []byte {
	if src.Is4() {
		h := make([]byte, 12, 20)
		h[0] = 0x45
		binary.BigEndian.PutUint16(h[2:], uint16(20+payload))
		h[6] = 0x40 // don't fragment
		h[8], h[9] = 64, proto
		h = append(append(h, src.AsSlice()...), dst.AsSlice()...)
		binary.BigEndian.PutUint16(h[10:], checksum(h))
		return h
	}
	h := make([]byte, 8, 40)
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(payload))
	h[6], h[7] = proto, 64
	return append(append(h, src.AsSlice()...), dst.AsSlice()...)
}

// checksum is that of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
