// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/units"
)

// QPInfo is how a queue pair is reached: what the two sides exchange out of band.
type QPInfo struct {
	// Addr is the IP address behind the GID (IPv4 as IPv4).
	Addr netip.Addr
	// Port is the UDP destination port: 4791 unless both sides agree otherwise.
	Port uint16
	// QPN and PSN are 24-bit numbers.
	QPN, PSN uint32
	// MTU is the path MTU that the QP was made with.
	MTU units.Bytes
	// Flags are announcements that only a device of the same kind reads.
	Flags uint32
}

// FlagICRCZeroID announces a sender that computes the ICRC over an IPv4
// identification of zero whatever the kernel puts on the wire, and a receiver
// that checks it so (docs/wire.md).
const FlagICRCZeroID uint32 = 1 << 0

// FlagCNP announces an end that answers packets which were marked (ECN) with
// congestion notification packets (CNP), and heeds those that it gets. Data
// between two such ends is ECN-capable.
const FlagCNP uint32 = 1 << 1

// FlagRC announces a queue pair of type UC that is a reliable connection (Caps.Reliable). Both sides are, or neither.
const FlagRC uint32 = 1 << 2

// FlagTrim announces an end that sends the headers of a write that a switch has cut back to its sender, and takes
// those that come back to it. Between two such ends data carries what makes switches cut it (docs/wire.md).
const FlagTrim uint32 = 1 << 3

// QPInfoSize is the length of an encoded QPInfo in bytes.
const QPInfoSize = 36

// Append appends the fixed-size encoding of i to b.
func (i QPInfo) Append(b []byte) []byte {
	a := i.Addr.As16()
	b = append(b, a[:]...)
	b = binary.BigEndian.AppendUint16(b, i.Port)
	var v4 uint16
	if i.Addr.Is4() {
		v4 = 1
	}
	b = binary.BigEndian.AppendUint16(b, v4)
	b = binary.BigEndian.AppendUint32(b, i.QPN)
	b = binary.BigEndian.AppendUint32(b, i.PSN)
	b = binary.BigEndian.AppendUint32(b, uint32(i.MTU))
	return binary.BigEndian.AppendUint32(b, i.Flags)
}

// ParseQPInfo decodes the first QPInfoSize bytes of b.
func ParseQPInfo(b []byte) (QPInfo, error) {
	if len(b) < QPInfoSize {
		return QPInfo{}, fmt.Errorf("queue pair info has %d bytes, want %d", len(b), QPInfoSize)
	}
	a := netip.AddrFrom16([16]byte(b[:16]))
	if binary.BigEndian.Uint16(b[18:])&1 != 0 {
		a = a.Unmap()
	}
	i := QPInfo{
		Addr:  a,
		Port:  binary.BigEndian.Uint16(b[16:]),
		QPN:   binary.BigEndian.Uint32(b[20:]),
		PSN:   binary.BigEndian.Uint32(b[24:]),
		MTU:   units.Bytes(binary.BigEndian.Uint32(b[28:])),
		Flags: binary.BigEndian.Uint32(b[32:]),
	}
	if i.QPN >= 1<<24 || i.PSN >= 1<<24 {
		return QPInfo{}, fmt.Errorf("queue pair info: QPN %#x or PSN %#x exceeds 24 bits", i.QPN, i.PSN)
	}
	return i, nil
}
