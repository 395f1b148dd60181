// SPDX-License-Identifier: Apache-2.0

//go:build wire

package pcap

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// python is the distribution's, which finds the distribution's scapy.
const python = "/usr/bin/python3"

// TestICRC compares our ICRC with that of two others: scapy's, which has it for IPv4 only, and one
// written from the IBTA's annex in testdata/icrc.py.
func TestICRC(t *testing.T) {
	const packets, seed = 400, 1
	r := rand.New(rand.NewPCG(seed, 0))
	var want []string
	path := capture(t, func(w *Writer) {
		for i := range packets {
			p := randomPacket(t, r, i%2 == 1)
			w.Outbound([]backend.WirePacket{p})
			want = append(want, hex.EncodeToString(p.Data[len(p.Data)-roce.ICRCSize:]))
		}
	})
	out, err := exec.Command(python, "testdata/icrc.py", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, packets, "%s", out)
	for i, line := range lines {
		f := strings.Fields(line)
		require.Equal(t, map[bool]string{false: "scapy", true: "annex"}[i%2 == 1], f[0])
		for _, other := range f[1:] {
			require.Equal(t, want[i], other, "packet %d, seed %d: %s", i, seed, line)
		}
	}
}

// randomPacket is a write between two random places.
func randomPacket(t *testing.T, r *rand.Rand, v6 bool) backend.WirePacket {
	n := r.IntN(300)
	w := roce.UCWriteImm{
		VA: r.Uint64(), RKey: r.Uint32(), Imm: r.Uint32(), Length: uint32(n),
		DestQP: roce.QPN(r.Uint32() & roce.QPNMask), PSN: roce.PSN(r.Uint32() & roce.PSNMask),
		PKey: roce.PKey(r.Uint32()), Solicited: r.IntN(2) == 1, MigReq: r.IntN(2) == 1,
	}
	b := make([]byte, roce.PacketSize(roce.UCWriteImmHeaders, n))
	w.Encode(b)
	for i := range n {
		b[roce.UCWriteImmHeaders+i] = byte(r.Uint32())
	}
	p := backend.WirePacket{Src: randomAddr(r, v6, uint16(r.Uint32())), Dst: randomAddr(r, v6, roce.UDPPort), Data: b}
	f, err := roce.NewFlow(p.Src, p.Dst)
	require.NoError(t, err)
	f.Seed(len(b)).Seal(b)
	return p
}

func randomAddr(r *rand.Rand, v6 bool, port uint16) netip.AddrPort {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if v6 {
		b[0] = 0x20 // a global address: not one that stands for IPv4
		return netip.AddrPortFrom(netip.AddrFrom16(b), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:])), port)
}

// TestICRCOfDevice does the same with what a device has sent.
func TestICRCOfDevice(t *testing.T) {
	families(t, func(t *testing.T, addr netip.Addr) {
		lengths := []uint32{0, 1, 2, 3, 4, 1000, mtu}
		path := capture(t, func(w *Writer) {
			a, b := connected(t, addr, w)
			a.writes(b, lengths)
			a.datagrams(b, lengths[1:])
		})
		crcs, err := exec.Command("tshark", "-n", "-r", path, "-T", "fields", "-e", "infiniband.invariant.crc").Output()
		require.NoError(t, err)
		out, err := exec.Command(python, "testdata/icrc.py", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		want, got := strings.Fields(string(crcs)), strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, want, 2*len(lengths)-1)
		require.Len(t, got, len(want), "%s", out)
		for i, line := range got {
			for _, other := range strings.Fields(line)[1:] {
				require.Equal(t, strings.TrimPrefix(want[i], "0x"), other, "packet %d: %s", i, line)
			}
		}
	})
}
