// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
)

// The ICRC (IBTA 7.8.1 and Annex 17) is the CRC-32 of Ethernet over the packet from the IP header to
// the end of the pad, with eight bytes of ones in front, in place of the InfiniBand link header, and
// with the fields that may change on the way replaced by ones:
//
//	IPv4: type of service, time to live, header checksum. Identification, flags and fragment offset
//	      count as they are.
//	IPv6: traffic class, flow label, hop limit.
//	UDP:  checksum.
//	BTH:  the byte with FECN and BECN (resv8a).
//
// The value is on the wire with its least significant byte first.

// Lengths and offsets of the masked pseudo-headers that a Flow hashes.
const (
	lrhSize = 8

	ip4Length   = 2
	ip4ID       = 4
	ip4Flags    = 6
	ip4TTL      = 8
	ip4Protocol = 9
	ip4Checksum = 10
	ip4Src      = 12
	ip4Dst      = 16
	ip4DF       = 0x40

	ip6Length = 4
	ip6Next   = 6
	ip6Hop    = 7
	ip6Src    = 8
	ip6Dst    = 24

	udpSrc      = 0
	udpDst      = 2
	udpLength   = 4
	udpChecksum = 6

	protoUDP = 17
)

// ErrFlow reports addresses that can't be the two ends of an IPv4 or IPv6 flow.
var ErrFlow = errors.New("roce: source and destination must both be IPv4 or both IPv6 addresses")

// A Flow is the part of the ICRC that all packets of one direction between two UDP ports share: the
// addresses, the ports, and the fixed fields of the IP header. It assumes headers without options or
// extensions, and for IPv4 the don't-fragment flag, which every RoCEv2 sender sets. It is a small value
// to be kept with a queue pair; the zero Flow is of no use.
type Flow struct {
	base uint32 // CRC of the header with zero lengths and identification
	ipv6 bool
}

// NewFlow returns the flow from src to dst. IPv4 addresses mapped to IPv6 count as IPv4, which is what
// they are on the wire; zones are ignored. The error is ErrFlow.
func NewFlow(src, dst netip.AddrPort) (Flow, error) {
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	switch {
	case s.Is4() && d.Is4():
		return Flow{base: crc32.ChecksumIEEE(pseudo4(s.As4(), d.As4(), src.Port(), dst.Port()))}, nil
	case s.Is6() && d.Is6():
		return Flow{base: crc32.ChecksumIEEE(pseudo6(s.As16(), d.As16(), src.Port(), dst.Port())), ipv6: true}, nil
	}
	return Flow{}, ErrFlow
}

// pseudo4 returns the masked LRH, IPv4 and UDP headers with zero lengths and identification.
func pseudo4(src, dst [4]byte, sport, dport uint16) []byte {
	b := make([]byte, lrhSize+IPv4HeaderSize+UDPHeaderSize)
	fillOnes(b[:lrhSize])
	ip := b[lrhSize:][:IPv4HeaderSize]
	ip[0] = 0x45
	ip[1] = 0xff
	ip[ip4Flags] = ip4DF
	ip[ip4TTL] = 0xff
	ip[ip4Protocol] = protoUDP
	fillOnes(ip[ip4Checksum:ip4Src])
	copy(ip[ip4Src:], src[:])
	copy(ip[ip4Dst:], dst[:])
	fillUDP(b[lrhSize+IPv4HeaderSize:], sport, dport)
	return b
}

// pseudo6 returns the masked LRH, IPv6 and UDP headers with zero lengths.
func pseudo6(src, dst [16]byte, sport, dport uint16) []byte {
	b := make([]byte, lrhSize+IPv6HeaderSize+UDPHeaderSize)
	fillOnes(b[:lrhSize])
	ip := b[lrhSize:][:IPv6HeaderSize]
	fillOnes(ip[:ip6Length])
	ip[0] = 0x6f
	ip[ip6Next] = protoUDP
	ip[ip6Hop] = 0xff
	copy(ip[ip6Src:], src[:])
	copy(ip[ip6Dst:], dst[:])
	fillUDP(b[lrhSize+IPv6HeaderSize:], sport, dport)
	return b
}

func fillUDP(udp []byte, sport, dport uint16) {
	binary.BigEndian.PutUint16(udp[udpSrc:], sport)
	binary.BigEndian.PutUint16(udp[udpDst:], dport)
	fillOnes(udp[udpChecksum:])
}

func fillOnes(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// What a byte of a length field or of the identification makes of the CRC at the end of the UDP header.
var (
	diff4Length = makeFieldDiff(ip4Length, IPv4HeaderSize+UDPHeaderSize)
	diff4ID     = makeFieldDiff(ip4ID, IPv4HeaderSize+UDPHeaderSize)
	diff6Length = makeFieldDiff(ip6Length, IPv6HeaderSize+UDPHeaderSize)
	diffUDP     = makeFieldDiff(udpLength, UDPHeaderSize)
)

// fieldDiff has the tables for the high and the low byte of a 16-bit field.
type fieldDiff [2]*diffTable

func makeFieldDiff(offset, size int) fieldDiff {
	return fieldDiff{makeDiff(size - offset - 1), makeDiff(size - offset - 2)}
}

func (f *fieldDiff) of(v uint16) uint32 { return f[0][v>>8] ^ f[1][v&0xff] }

// IPv6 reports whether the flow is one of IPv6.
func (f Flow) IPv6() bool { return f.ipv6 }

// Seed returns the ICRC's start for a packet whose UDP payload, from BTH to ICRC, is n bytes long. An
// IPv4 packet is taken to have identification 0, which is what Linux gives to datagrams of unconnected
// sockets with IP_PMTUDISC_DO. n is at most 65535 minus headers, and usually at most MaxPacket.
func (f Flow) Seed(n int) Seed { return f.SeedID(n, 0) }

// SeedID is Seed for an IPv4 packet with the given identification; IPv6 has none and ignores it.
func (f Flow) SeedID(n int, id uint16) Seed {
	udp := uint16(n + UDPHeaderSize)
	r := f.base ^ diffUDP.of(udp)
	if f.ipv6 {
		return Seed(r ^ diff6Length.of(udp))
	}
	return Seed(r ^ diff4Length.of(udp+IPv4HeaderSize) ^ diff4ID.of(id))
}

// A Seed is the ICRC of a packet up to its BTH. It depends on the packet's length, so it can be reused
// for packets of one length of a Flow.
type Seed uint32

// bthMask[c] is the change to a Seed that makes a BTH whose byte bthECN is c count as if it were 0xff.
// A change of a byte is a change of the register when the byte comes, and that can be carried back to
// before the BTH. So the packet need not be copied to be masked, and is hashed in one piece.
var bthMask = func() (t [256]uint32) {
	for c := range t {
		r := uint32(c) ^ 0xff
		for range bthECN {
			r = crcUnbyte(r)
		}
		t[c] = r
	}
	return t
}()

// Sum returns the ICRC of a packet. b is its UDP payload from the BTH to the end of the pad, without
// the ICRC. Sum panics if b is too short for a BTH.
func (s Seed) Sum(b []byte) uint32 {
	_ = b[BTHSize-1]
	return crcUpdate(uint32(s)^bthMask[b[bthECN]], b)
}

// SumFetch is Sum, and meanwhile fetches the first bytes of next into the processor's caches, about as many as b has, where there is
// an instruction for that: a receiver gives the memory that it is going to copy the next payload to. next may be empty or shorter
// than b, and isn't read.
func (s Seed) SumFetch(b, next []byte) uint32 {
	if len(next) == 0 {
		return s.Sum(b)
	}
	_ = b[BTHSize-1]
	return crcFetch(uint32(s)^bthMask[b[bthECN]], b, next)
}

// zeros is the pad of Sum2. A local array would escape into hash/crc32.
var zeros [3]byte

// Sum2 is Sum for a packet in two pieces: headers, which start with the BTH and may include part of the
// payload, and the rest of the payload, which may be empty. The zero pad that makes their sum a
// multiple of 4 is added. Meanwhile the memory behind payload is fetched, about as much again, where there is an
// instruction for that: a sender's next payload is there. Sum2 panics if headers is too short for a BTH.
func (s Seed) Sum2(headers, payload []byte) uint32 {
	r := s.Sum(headers)
	if n := len(payload); n != 0 {
		r = crcFetch(r, payload, payload[n-1:])
	}
	if pad := PadCount(len(headers) + len(payload)); pad != 0 {
		r = crcUpdate(r, zeros[:pad])
	}
	return r
}

// Seal writes the ICRC into the last four bytes of packet, a UDP payload from the BTH to the ICRC. It
// panics if packet is shorter than MinPacket.
func (s Seed) Seal(packet []byte) {
	end := len(packet) - ICRCSize
	binary.LittleEndian.PutUint32(packet[end:], s.Sum(packet[:end]))
}

// Verify reports whether packet, a UDP payload of any length, ends with the right ICRC.
func (s Seed) Verify(packet []byte) bool {
	if len(packet) < MinPacket {
		return false
	}
	end := len(packet) - ICRCSize
	return s.Sum(packet[:end]) == binary.LittleEndian.Uint32(packet[end:])
}
