// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestParseHeaderLengths(t *testing.T) {
	for _, c := range []struct {
		size  int
		parse func([]byte) (int, error)
	}{
		{BTHSize, func(b []byte) (int, error) { h, err := ParseBTH(b); return cap(h), err }},
		{RETHSize, func(b []byte) (int, error) { h, err := ParseRETH(b); return cap(h), err }},
		{ImmDtSize, func(b []byte) (int, error) { h, err := ParseImmDt(b); return cap(h), err }},
		{DETHSize, func(b []byte) (int, error) { h, err := ParseDETH(b); return cap(h), err }},
		{AETHSize, func(b []byte) (int, error) { h, err := ParseAETH(b); return cap(h), err }},
		{AtomicETHSize, func(b []byte) (int, error) { h, err := ParseAtomicETH(b); return cap(h), err }},
	} {
		b := make([]byte, c.size+4)
		for _, b := range [][]byte{b, b[:c.size]} {
			n, err := c.parse(b)
			require.NoError(t, err)
			require.Equal(t, c.size, n)
		}
		_, err := c.parse(b[:c.size-1])
		require.Equal(t, ErrShort, err)
	}
}

func TestBTHSettersKeepNeighbours(t *testing.T) {
	h := BTH(make([]byte, BTHSize))
	fillOnes(h)
	h.SetDestQP(0xff000001)
	require.Equal(t, QPN(1), h.DestQP())
	require.False(t, h.FECN() || h.BECN())
	h[bthECN] = 0x3f
	h.SetECN(true, false)
	require.True(t, h.FECN() && !h.BECN())
	require.Equal(t, byte(0xbf), h[bthECN], "reserved bits stay")
	require.Equal(t, QPN(1), h.DestQP())
	h[bthECN] = 0xff
	h.SetECN(false, false)
	require.Equal(t, byte(0x3f), h[bthECN])
	h[bthECN] = 0xbf
	h.SetMore(0xc5)
	require.Equal(t, byte(0x85), h[bthECN])
	require.Equal(t, uint8(5), h.More())
	h.SetPSN(0xff000002, false)
	require.Equal(t, PSN(2), h.PSN())
	require.False(t, h.AckReq())
	h[bthAckReq] = 0x7f
	require.False(t, h.AckReq(), "reserved bits are none of it")
	h.SetFlags(false, false, 6)
	require.False(t, h.MigReq())
	h.SetFlags(false, true, 2)
	require.Equal(t, 2, h.PadCount())
	require.True(t, h.MigReq() && !h.Solicited())
	require.Zero(t, h.TVer())
	require.Equal(t, DefaultPKey, h.PKey())

	a := AETH(make([]byte, AETHSize))
	a.Set(0x61, 0xff000003)
	require.Equal(t, AETH{0x61, 0, 0, 3}, a)
}

func TestCNP(t *testing.T) {
	b := make([]byte, CNPPacketSize)
	fillOnes(b)
	CNP(b).Set(0xd2, 0x1234)
	require.Equal(t, append([]byte{0x81, 0, 0x12, 0x34, 0x40, 0, 0, 0xd2, 0, 0, 0, 0}, make([]byte, CNPSize)...), b[:len(b)-ICRCSize])
	testFlow4().Seed(len(b)).Seal(b)
	c, err := ParseCNP(b)
	require.NoError(t, err)
	require.Equal(t, QPN(0xd2), c.BTH().DestQP())
	require.True(t, c.BTH().BECN())
	require.Equal(t, make([]byte, CNPSize), c.Reserved())
	var p Packet
	require.NoError(t, p.Parse(b))
	require.Equal(t, CNPOpcode, p.Opcode)

	b[0] = byte(UCSendOnly)
	_, err = ParseCNP(b)
	require.Equal(t, ErrOpcode, err)
	b[0], b[1] = byte(CNPOpcode), 0x03
	_, err = ParseCNP(b)
	require.Equal(t, ErrVersion, err)
	b[1] = 0
	_, err = ParseCNP(b[:11])
	require.Equal(t, ErrShort, err)
	_, err = ParseCNP(b[:CNPPacketSize-4])
	require.Equal(t, ErrShort, err)
	_, err = ParseCNP(append(b, 0, 0, 0, 0))
	require.Equal(t, ErrLength, err)
	b[1] |= 0x10
	_, err = ParseCNP(b)
	require.Equal(t, ErrPad, err)
}

func TestOpcodeNames(t *testing.T) {
	require.Equal(t, "UC RDMA WRITE Only with Immediate", UCWriteOnlyImm.String())
	require.Equal(t, "UD SEND Only", UDSendOnly.String())
	require.Equal(t, "RC FetchAdd", RCFetchAdd.String())
	require.Equal(t, "CNP", CNPOpcode.String())
	require.Equal(t, "opcode 0x15", Opcode(0x15).String())
	require.Len(t, knownOpcodes(), 25+12+2+1)
	seen := map[string]bool{}
	for _, op := range knownOpcodes() {
		require.False(t, seen[op.String()], op)
		seen[op.String()] = true
		require.Equal(t, op < 0x20, op.IsRC(), op)
		require.Equal(t, op >= 0x20 && op < 0x40, op.IsUC(), op)
		require.Equal(t, op == UDSendOnly || op == UDSendOnlyImm, op.IsUD(), op)
	}
}

// Header lengths as in the specification's and rxe's opcode tables.
func TestLayoutSizes(t *testing.T) {
	for op, want := range map[Opcode]int{
		UCSendMiddle: 12, UCSendLastImm: 16, UCWriteFirst: 28, UCWriteLastImm: 16, UCWriteOnlyImm: 32,
		UDSendOnly: 20, UDSendOnlyImm: 24, RCReadRequest: 28, RCAcknowledge: 16, RCAtomicAcknowledge: 24,
		RCCompareSwap: 40, RCSendOnlyWithInvalidate: 16, RCFlush: 32, RCAtomicWrite: 28, CNPOpcode: 12,
	} {
		require.Equal(t, want, int(layouts[op].size), op)
	}
	require.Equal(t, 64, IPv4WriteImmOverhead)
	require.Equal(t, 84, IPv6WriteImmOverhead)
	require.Equal(t, 36, UCWriteImmOverhead)
	require.Equal(t, 24, UDSendOverhead)
}

func TestSyndrome(t *testing.T) {
	for s, want := range map[Syndrome]string{
		0x1f: "ACK", 0x03: "ACK credit code 3", 0x2e: "RNR NAK timer code 14", NAKPSNSequence: "NAK PSN sequence error",
		NAKInvalidRequest: "NAK invalid request", NAKRemoteAccess: "NAK remote access error",
		NAKRemoteOperational: "NAK remote operational error", NAKInvalidRDRequest: "NAK invalid RD request",
		0x65: "NAK reserved code 5", 0x40: "reserved syndrome 0x40", 0xe2: "NAK remote access error",
	} {
		require.Equal(t, want, s.String())
	}
	require.Equal(t, SyndromeRNRNAK, Syndrome(0x2e).Kind())
}

func TestKeys(t *testing.T) {
	require.True(t, DefaultPKey.Matches(0x7fff))
	require.True(t, PKey(0x0001).Matches(0x8001))
	require.False(t, PKey(0x7fff).Matches(0x7fff), "two limited members")
	require.False(t, DefaultPKey.Matches(0xfffe))
	require.False(t, PKey(0x8000).Matches(0x8000), "partition 0 is invalid")

	require.Equal(t, QKey(5), QKey(5).OnWire(7))
	require.Equal(t, QKey(7), QKey(0x80000000).OnWire(7))
}

func TestMTU(t *testing.T) {
	for m, want := range map[MTU]units.Bytes{MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096} {
		require.Equal(t, want, m.Bytes())
		got, err := MTUOf(want)
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	require.Equal(t, "4096", MTU4096.String())
	require.Equal(t, "MTU(0)", MTU(0).String())
	require.Zero(t, MTU(6).Bytes())
	_, err := MTUOf(1500)
	require.EqualError(t, err, "roce: path MTU of 1500 bytes: choose 256, 512, 1024, 2048 or 4096")

	for _, c := range []struct {
		iface units.Bytes
		ipv6  bool
		want  MTU
	}{
		{1500, false, MTU1024}, {1500, true, MTU1024}, {4159, false, MTU2048}, {4160, false, MTU4096},
		{4179, true, MTU2048}, {4180, true, MTU4096}, {65536, true, MTU4096}, {320, false, MTU256},
	} {
		got, ok := LargestMTU(c.iface, c.ipv6)
		require.True(t, ok)
		require.Equal(t, c.want, got, c)
	}
	_, ok := LargestMTU(319, false)
	require.False(t, ok)
}

func TestPadCount(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3} {
		require.Equal(t, want, PadCount(n))
	}
	require.Equal(t, 40, PacketSize(UCWriteImmHeaders, 1))
	b := []byte{9, 9, 9, 9, 9, 9, 9, 9}
	require.Equal(t, 6, PutTrailer(b, 2, 0x01020304))
	require.Equal(t, []byte{0, 0, 4, 3, 2, 1, 9, 9}, b)
	require.Panics(t, func() { PutTrailer(b[:6:6], 1, 0) })
}
