// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A golden packet was made or captured by others. ip starts with the IP header.
type golden struct {
	name, source string
	ip           string // hex
	want         Packet // Payload and ICRC are compared through the bytes
}

// fromRXE: captured on a veth pair between two rdma_rxe devices of Linux 6.1 (Debian 12) in a virtual
// machine: UC writes posted through uverbs, the others by ibv_ud_pingpong and ibv_rc_pingpong.
const fromRXE = "Linux 6.1, rdma_rxe, over IPv6"

// fromRXE4: captured by TestWireMatrix of package softroce, which writes from rxe on a veth interface
// to userroce: Linux 6.1.0-50 (Debian 12) in a virtual machine. The kernel counts the identification.
const fromRXE4 = "Linux 6.1, rdma_rxe, over IPv4"

var goldens = []golden{
	{
		name: "CNP captured on a ConnectX-4 Lx",
		// The Ethernet header is left out.
		source: "github.com/secdev/scapy, test/contrib/roce.uts, \"RoCE CNP captured on ConnectX-4 Lx\"",
		ip: `45c2 003c 718c 4000 4011 9161 0a00 1101 0a00 1201
		     0000 12b7 0028 0000
		     8100 ffff 4000 0118 0000 0000
		     0000 0000 0000 0000 0000 0000 0000 0000 82fd 002a`,
		want: Packet{Opcode: CNPOpcode, PKey: DefaultPKey, BECN: true, DestQP: 0x118},
	},
	{
		name: "UC SEND Only with two bytes of pad",
		// Given there as fields; checksums and ICRC are the values that the test expects.
		source: "github.com/secdev/scapy, test/contrib/roce.uts, \"RoCE layer\", \"an example UC packet\"",
		ip: `4501 0040 0478 4000 4011 b4d5 c0a8 0007 c0a8 0007
		     c000 12b7 002c aca2
		     2460 ffff 0000 00d3 00cf 1710
		     4630 818b e289 35d9 0e9a 9550 5401 be88 5e50 0000 78f3 53f3`,
		want: Packet{Opcode: UCSendOnly, MigReq: true, PKey: DefaultPKey, DestQP: 211, PSN: 13571856},
	},
	{
		name: "UC RDMA WRITE Only with Immediate, 13 bytes, from rxe", source: fromRXE,
		ip: `6000 0000 003c 1140
		     fe80 0000 0000 0000 2c20 feff fe6c 15f0
		     fe80 0000 0000 0000 586f 30ff fec1 e8f7
		     c121 12b7 003c 0000
		     2b30 ffff 0000 0011 00ff fffe
		     0000 7fe5 856d a000 0000 0276 0000 000d c0ff ee00
		     0108 0f16 1d24 2b32 3940 474e 5500 0000 8438 9b47`,
		want: Packet{
			Opcode: UCWriteOnlyImm, PKey: DefaultPKey, DestQP: 0x11, PSN: 0xfffffe,
			VA: 0x7fe5856da000, RKey: 0x276, DMALength: 13, Imm: 0xc0ffee00,
		},
	},
	{
		name: "UC RDMA WRITE Only with Immediate, empty, from rxe", source: fromRXE,
		ip: `6000 0000 002c 1140
		     fe80 0000 0000 0000 2c20 feff fe6c 15f0
		     fe80 0000 0000 0000 586f 30ff fec1 e8f7
		     c121 12b7 002c 0000
		     2b00 ffff 0000 0011 00ff ffff
		     0000 7fe5 856d a001 0000 0276 0000 0000 c0ff ee01
		     c3cc 229b`,
		want: Packet{
			Opcode: UCWriteOnlyImm, PKey: DefaultPKey, DestQP: 0x11, PSN: 0xffffff,
			VA: 0x7fe5856da001, RKey: 0x276, Imm: 0xc0ffee01,
		},
	},
	{
		name: "UC RDMA WRITE Only with Immediate, 13 bytes, from rxe over IPv4", source: fromRXE4,
		ip: `4500 0050 f3a0 4000 4011 32e8 0a09 0001 0a09 0002
		     c001 12b7 003c 0000
		     2b30 ffff 006d 0000 005f cb23
		     0000 0000 0000 2000 d3f4 6435 0000 000d 0000 0002
		     0309 1117 1f25 2d33 3b41 494f 5700 0000 b5dc ae0c`,
		want: Packet{
			Opcode: UCWriteOnlyImm, PKey: DefaultPKey, DestQP: 0x6d0000, PSN: 0x5fcb23,
			VA: 0x2000, RKey: 0xd3f46435, DMALength: 13, Imm: 2,
		},
	},
	{
		name: "UC RDMA WRITE Only with Immediate, 1 byte, from rxe over IPv4", source: fromRXE4,
		ip: `4500 0044 f2f7 4000 4011 339d 0a09 0001 0a09 0002
		     c001 12b7 0030 0000
		     2b30 ffff 0009 0000 007c aeed
		     0000 0000 0000 3000 5a38 391c 0000 0001 0000 0003
		     0300 0000 c4bd f17a`,
		want: Packet{
			Opcode: UCWriteOnlyImm, PKey: DefaultPKey, DestQP: 0x090000, PSN: 0x7caeed,
			VA: 0x3000, RKey: 0x5a38391c, DMALength: 1, Imm: 3,
		},
	},
	{
		name: "UC RDMA WRITE Only with Immediate, empty, from rxe over IPv4", source: fromRXE4,
		ip: `4500 0040 f2f8 4000 4011 33a0 0a09 0001 0a09 0002
		     c001 12b7 002c 0000
		     2b00 ffff 0009 0000 007c aeee
		     0000 0000 0000 4000 5a38 391c 0000 0000 0000 0004
		     18c8 2f45`,
		want: Packet{
			Opcode: UCWriteOnlyImm, PKey: DefaultPKey, DestQP: 0x090000, PSN: 0x7caeee, VA: 0x4000, RKey: 0x5a38391c, Imm: 4,
		},
	},
	{
		name: "UD SEND Only, 50 bytes, from rxe", source: fromRXE,
		ip: `6000 0000 0054 1140
		     fe80 0000 0000 0000 2c20 feff fe6c 15f0
		     fe80 0000 0000 0000 586f 30ff fec1 e8f7
		     f806 12b7 0054 0000
		     6420 ffff 0000 0012 00c2 962c
		     1111 1111 0000 0012
		     7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b
		     7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 0000 e03e 1f9d`,
		want: Packet{
			Opcode: UDSendOnly, PKey: DefaultPKey, DestQP: 0x12, PSN: 0xc2962c, QKey: 0x11111111, SrcQP: 0x12,
		},
	},
	{
		name: "RC SEND Only, 50 bytes, from rxe", source: fromRXE,
		ip: `6000 0000 004c 1140
		     fe80 0000 0000 0000 2c20 feff fe6c 15f0
		     fe80 0000 0000 0000 586f 30ff fec1 e8f7
		     c169 12b7 004c 0000
		     0420 ffff 0000 0013 800b 2c26
		     7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b
		     7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 7b7b 0000 7b25 5c86`,
		want: Packet{Opcode: RCSendOnly, PKey: DefaultPKey, DestQP: 0x13, PSN: 0x0b2c26, AckReq: true},
	},
	{
		name: "RC Acknowledge from rxe", source: fromRXE,
		ip: `6000 0000 001c 1140
		     fe80 0000 0000 0000 586f 30ff fec1 e8f7
		     fe80 0000 0000 0000 2c20 feff fe6c 15f0
		     c169 12b7 001c 0000
		     1100 ffff 0000 0013 000b 2c26
		     1f00 0001
		     7a45 e574`,
		want: Packet{Opcode: RCAcknowledge, PKey: DefaultPKey, DestQP: 0x13, PSN: 0x0b2c26, Syndrome: 0x1f, MSN: 1},
	},
}

func (g *golden) bytes(t testing.TB) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(g.ip), ""))
	require.NoError(t, err, g.name)
	return b
}

// udpPayload returns the golden packet from the BTH to the ICRC.
func (g *golden) udpPayload(t testing.TB) []byte {
	_, _, b := split(t, g.bytes(t))
	return b
}

// split returns what a raw socket would know of the IP packet: flow, identification, UDP payload.
func split(t testing.TB, ip []byte) (Flow, uint16, []byte) {
	var src, dst netip.Addr
	var udp []byte
	var id uint16
	if ip[0]>>4 == 4 {
		src, dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		id = uint16(ip[4])<<8 | uint16(ip[5])
		udp = ip[20:]
	} else {
		src, dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		udp = ip[40:]
	}
	port := func(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }
	require.Equal(t, uint16(UDPPort), port(udp[2:]))
	require.Equal(t, len(udp), int(port(udp[4:])))
	f, err := NewFlow(netip.AddrPortFrom(src, port(udp)), netip.AddrPortFrom(dst, UDPPort))
	require.NoError(t, err)
	return f, id, udp[8:]
}

func TestGolden(t *testing.T) {
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			t.Log("source:", g.source)
			flow, id, b := split(t, g.bytes(t))
			require.True(t, flow.SeedID(len(b), id).Verify(b), "ICRC")

			var p Packet
			require.NoError(t, p.Parse(b))
			want := g.want
			want.Payload, want.ICRC = p.Payload, p.ICRC
			require.Equal(t, want, p)

			again := make([]byte, len(b))
			n, err := p.Encode(again)
			require.NoError(t, err)
			require.Equal(t, b, again[:n])
			again[n-1] ^= 1
			flow.SeedID(n, id).Seal(again)
			require.Equal(t, b, again)

			if !flow.IPv6() {
				got, ok := flow.VerifyAnyID(b)
				require.True(t, ok)
				require.Equal(t, id, got)
			}
		})
	}
}
