// SPDX-License-Identifier: Apache-2.0

package pcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// records splits a capture, checking its framing.
func records(t *testing.T, b []byte) [][]byte {
	t.Helper()
	le := binary.LittleEndian
	require.Equal(t, uint32(0xa1b23c4d), le.Uint32(b))
	require.Equal(t, uint16(2), le.Uint16(b[4:]))
	require.Equal(t, uint16(4), le.Uint16(b[6:]))
	require.Equal(t, uint32(101), le.Uint32(b[20:]), "link type raw IP")
	var out [][]byte
	for b = b[24:]; len(b) > 0; {
		n := le.Uint32(b[8:])
		require.Equal(t, n, le.Uint32(b[12:]))
		require.Less(t, le.Uint32(b[4:]), uint32(1e9), "nanoseconds")
		out = append(out, b[16:16+n])
		b = b[16+n:]
	}
	return out
}

// ones adds 16-bit words with end-around carry: over data with a right checksum it gives 0xffff.
func ones(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		if len(p)%2 == 1 {
			p = append(bytes.Clone(p), 0)
		}
		for i := 0; i < len(p); i += 2 {
			sum += uint32(p[i])<<8 | uint32(p[i+1])
			sum = sum&0xffff + sum>>16
		}
	}
	return uint16(sum)
}

func TestIPv4(t *testing.T) {
	payload := []byte("odd length: 15!")
	var file bytes.Buffer
	w, err := NewWriter(&file)
	require.NoError(t, err)
	w.Outbound([]backend.WirePacket{
		{Src: netip.MustParseAddrPort("192.0.2.1:49152"), Dst: netip.MustParseAddrPort("192.0.2.2:4791"), Data: payload},
		{Src: netip.MustParseAddrPort("192.0.2.1:49152"), Dst: netip.MustParseAddrPort("192.0.2.2:4791"), Data: nil}, // dropped
	})
	require.NoError(t, w.Flush())
	got := records(t, file.Bytes())
	require.Len(t, got, 1)
	p := got[0]
	require.Len(t, p, 20+8+len(payload))
	require.Equal(t, byte(0x45), p[0])
	require.Equal(t, uint16(len(p)), binary.BigEndian.Uint16(p[2:]))
	require.Equal(t, []byte{0, 0, 0x40, 0}, p[4:8], "identification 0, don't fragment")
	require.Equal(t, byte(17), p[9])
	require.Equal(t, uint16(0xffff), ones(p[:20]), "header checksum")
	require.Equal(t, []byte{192, 0, 2, 1, 192, 0, 2, 2}, p[12:20])
	udp := p[20:]
	require.Equal(t, uint16(49152), binary.BigEndian.Uint16(udp))
	require.Equal(t, uint16(4791), binary.BigEndian.Uint16(udp[2:]))
	require.Equal(t, uint16(len(udp)), binary.BigEndian.Uint16(udp[4:]))
	require.Equal(t, uint16(0xffff), ones(p[12:20], []byte{0, 17, 0, byte(len(udp))}, udp), "UDP checksum")
	require.Equal(t, payload, udp[8:])
}

func TestIPv6(t *testing.T) {
	payload := []byte("even length.")
	var file bytes.Buffer
	w, err := NewWriter(&file)
	require.NoError(t, err)
	w.Inbound([]backend.WirePacket{
		{Src: netip.MustParseAddrPort("[2001:db8::1]:49152"), Dst: netip.MustParseAddrPort("[2001:db8::2]:4791"), Data: payload},
	})
	require.NoError(t, w.Flush())
	p := records(t, file.Bytes())[0]
	require.Equal(t, byte(0x60), p[0])
	require.Equal(t, uint16(8+len(payload)), binary.BigEndian.Uint16(p[4:]))
	require.Equal(t, byte(17), p[6])
	udp := p[40:]
	require.Equal(t, uint16(0xffff), ones(p[8:40], []byte{0, 0, 0, byte(len(udp)), 0, 0, 0, 17}, udp), "UDP checksum")
	require.Equal(t, payload, udp[8:])
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrors(t *testing.T) {
	_, err := NewWriter(full{})
	require.ErrorContains(t, err, "disk full")
	var file bytes.Buffer
	w, err := NewWriter(&file)
	require.NoError(t, err)
	w.out.Reset(full{})
	w.Outbound([]backend.WirePacket{{Src: netip.MustParseAddrPort("192.0.2.1:1"), Dst: netip.MustParseAddrPort("192.0.2.2:2"), Data: make([]byte, 9)}})
	require.ErrorContains(t, w.Flush(), "disk full")
	require.ErrorContains(t, w.Flush(), "disk full", "the first error stays")
}
