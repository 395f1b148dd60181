// SPDX-License-Identifier: Apache-2.0

// Package pcap writes the packets of a user-space device to a capture file, as middleware on its
// wire: classic pcap with nanoseconds and raw IP packets, which Wireshark and tcpdump read.
//
// Such a device sees UDP payloads only, so the IP and UDP headers are made up: what is in them is
// right as far as the device can know. IPv4's identification is 0, which the ICRC of userroce is
// computed over.
package pcap

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
)

// Of the file format.
const (
	magicNano   = 0xa1b23c4d
	major       = 2
	minor       = 4
	snapLen     = 65535
	linkTypeRaw = 101 // an IPv4 or IPv6 header comes first
)

// Of the headers.
const (
	ipv4Len      = 20
	udpLen       = 8
	protocolUDP  = 17
	hopLimit     = 64
	dontFragment = 0x4000
)

// A Writer is a backend.Wire that changes nothing. Its methods may be called from any goroutine.
type Writer struct {
	mu  sync.Mutex
	out *bufio.Writer
	buf []byte
	err error
}

var _ backend.Wire = (*Writer)(nil)

// NewWriter writes the file's header to w.
func NewWriter(w io.Writer) (*Writer, error) {
	p := &Writer{out: bufio.NewWriterSize(w, 1<<20), buf: make([]byte, 0, snapLen)}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, magicNano)
	b = le.AppendUint16(b, major)
	b = le.AppendUint16(b, minor)
	b = le.AppendUint64(b, 0) // time zone and accuracy: always 0
	b = le.AppendUint32(b, snapLen)
	b = le.AppendUint32(b, linkTypeRaw)
	if _, err := p.out.Write(b); err != nil {
		return nil, err
	}
	return p, p.out.Flush()
}

// Outbound implements backend.Wire.
func (p *Writer) Outbound(batch []backend.WirePacket) { p.write(batch) }

// Inbound implements backend.Wire.
func (p *Writer) Inbound(batch []backend.WirePacket) { p.write(batch) }

// Flush writes what is buffered and returns the first error of all writes.
func (p *Writer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Flush(); p.err == nil {
		p.err = err
	}
	return p.err
}

func (p *Writer) write(batch []backend.WirePacket) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		if batch[i].Data == nil {
			continue // dropped by middleware
		}
		p.buf = appendRecord(p.buf[:0], now, &batch[i])
		if _, err := p.out.Write(p.buf); err != nil && p.err == nil {
			p.err = err
		}
	}
}

const recordLen = 16

// appendRecord appends a packet with its record header.
func appendRecord(b []byte, now time.Time, w *backend.WirePacket) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(now.Unix()))
	b = le.AppendUint32(b, uint32(now.Nanosecond()))
	b = le.AppendUint64(b, 0) // lengths, when they are known
	b = appendPacket(b, w)
	n := uint32(len(b) - recordLen)
	le.PutUint32(b[8:], n)
	le.PutUint32(b[12:], n)
	return b
}

func appendPacket(b []byte, w *backend.WirePacket) []byte {
	be := binary.BigEndian
	src, dst := w.Src.Addr().Unmap(), w.Dst.Addr().Unmap()
	length := udpLen + len(w.Data)
	if src.Is4() {
		b = appendIPv4(b, src, dst, w.TOS, length)
	} else {
		b = appendIPv6(b, src, dst, w.TOS, length)
	}
	udp := len(b)
	b = be.AppendUint16(b, w.Src.Port())
	b = be.AppendUint16(b, w.Dst.Port())
	b = be.AppendUint16(b, uint16(length))
	b = be.AppendUint16(b, 0)
	b = append(b, w.Data...)
	sum := sum16(0, src.AsSlice())
	sum = sum16(sum, dst.AsSlice())
	sum = sum16(sum+protocolUDP+uint64(length), b[udp:])
	check := ^fold(sum)
	if check == 0 {
		check = 0xffff // 0 stands for no checksum (RFC 768)
	}
	be.PutUint16(b[udp+6:], check)
	return b
}

func appendIPv4(b []byte, src, dst netip.Addr, tos uint8, length int) []byte {
	be, at := binary.BigEndian, len(b)
	b = append(b, 0x45, tos) // version and header length first
	b = be.AppendUint16(b, uint16(ipv4Len+length))
	b = be.AppendUint16(b, 0) // identification
	b = be.AppendUint16(b, dontFragment)
	b = append(b, hopLimit, protocolUDP, 0, 0)
	b = append(b, src.AsSlice()...)
	b = append(b, dst.AsSlice()...)
	be.PutUint16(b[at+10:], ^fold(sum16(0, b[at:])))
	return b
}

func appendIPv6(b []byte, src, dst netip.Addr, tos uint8, length int) []byte {
	b = append(b, 0x60|tos>>4, tos<<4, 0, 0) // version, traffic class, flow label
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, protocolUDP, hopLimit)
	b = append(b, src.AsSlice()...)
	return append(b, dst.AsSlice()...)
}

// sum16 adds the 16-bit words of b, an odd last byte counting as the high one (RFC 1071).
func sum16(sum uint64, b []byte) uint64 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

func fold(sum uint64) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
