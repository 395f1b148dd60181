// SPDX-License-Identifier: Apache-2.0

//go:build wire

package pcap

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
)

// Opcodes as Wireshark has them (IBTA 9.2).
const (
	opUCWriteImm = 0x2b
	opUDSend     = 0x64
	opCNP        = 0x81
)

// fields are what is asked of the dissector, in this order.
var fields = []string{
	"_ws.col.Protocol", "infiniband.bth.opcode", "infiniband.bth.padcnt", "infiniband.bth.p_key", "infiniband.bth.destqp",
	"infiniband.bth.psn", "infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen", "infiniband.immdt",
	"infiniband.deth.q_key", "infiniband.deth.srcqp",
	"ip.dsfield.dscp", "ip.dsfield.ecn", "ipv6.tclass.dscp", "ipv6.tclass.ecn",
	"udp.dstport", "udp.checksum.status", "ip.checksum.status", "_ws.malformed", "_ws.expert.message",
}

type dissected map[string]string

// dissect has tshark read a capture, checking the checksums of IP and UDP.
func dissect(t *testing.T, path string) (all []dissected) {
	t.Helper()
	args := []string{"-n", "-r", path, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command("tshark", args...).Output()
	require.NoError(t, err, "tshark")
	for line := range strings.Lines(string(out)) {
		v := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		require.Len(t, v, len(fields), line)
		d := dissected{}
		for i, f := range fields {
			d[f] = v[i]
		}
		all = append(all, d)
	}
	return all
}

// number is a field's value, which tshark prints in decimal or hexadecimal.
func (d dissected) number(t *testing.T, field string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(d[field], 0, 64)
	require.NoError(t, err, "%s: %v", field, d)
	return v
}

func (d dissected) equal(t *testing.T, want uint64, field string) {
	t.Helper()
	require.Equal(t, want, d.number(t, field), "%s: %v", field, d)
}

// TestDissector: Wireshark reads our packets as what they are meant to be, and finds nothing odd.
func TestDissector(t *testing.T) {
	families(t, func(t *testing.T, addr netip.Addr) {
		lengths := []uint32{0, 1, 2, 3, 4, 1023, 1024, mtu}
		var a, b *end
		var sent []backend.Write
		path := capture(t, func(w *Writer) {
			a, b = connected(t, addr, w)
			sent = a.writes(b, lengths)
			a.datagrams(b, lengths[1:])
		})
		got := dissect(t, path)
		require.Len(t, got, 2*len(lengths)-1)
		for i, d := range got {
			d.sound(t, addr)
			if i < len(sent) {
				d.isWrite(t, a, b, i, sent[i])
			} else {
				d.isDatagram(t, a, b, lengths[i-len(sent)+1])
			}
		}
	})
}

// sound checks what all packets have in common.
func (d dissected) sound(t *testing.T, addr netip.Addr) {
	t.Helper()
	require.Equal(t, "RRoCE", d["_ws.col.Protocol"], "%v", d)
	require.Empty(t, d["_ws.malformed"], "%v", d)
	require.Empty(t, d["_ws.expert.message"], "%v", d)
	d.equal(t, 4791, "udp.dstport")
	d.equal(t, 0xffff, "infiniband.bth.p_key")
	const good = 1
	d.equal(t, good, "udp.checksum.status")
	if addr.Is4() {
		d.equal(t, good, "ip.checksum.status")
	}
}

func (d dissected) isWrite(t *testing.T, a, b *end, i int, w backend.Write) {
	t.Helper()
	d.equal(t, opUCWriteImm, "infiniband.bth.opcode")
	d.equal(t, uint64(-w.Length&3), "infiniband.bth.padcnt")
	d.equal(t, uint64(b.uc.Info().QPN), "infiniband.bth.destqp")
	d.equal(t, uint64(a.uc.Info().PSN+uint32(i))&0xffffff, "infiniband.bth.psn")
	d.equal(t, w.VA, "infiniband.reth.va")
	d.equal(t, uint64(w.RKey), "infiniband.reth.r_key")
	d.equal(t, uint64(w.Length), "infiniband.reth.dmalen")
	require.Equal(t, fmt.Sprintf("%08x", w.Imm), d["infiniband.immdt"])
}

func (d dissected) isDatagram(t *testing.T, a, b *end, length uint32) {
	t.Helper()
	d.equal(t, opUDSend, "infiniband.bth.opcode")
	d.equal(t, uint64(-length&3), "infiniband.bth.padcnt")
	d.equal(t, uint64(b.ud.Info().QPN), "infiniband.bth.destqp")
	d.equal(t, uint64(backend.DatagramQKey), "infiniband.deth.q_key")
	d.equal(t, uint64(a.ud.Info().QPN), "infiniband.deth.srcqp")
}

// marking is a capture that also marks what comes in, as a queue on its way would.
type marking struct{ *Writer }

func (m marking) Inbound(batch []backend.WirePacket) {
	for i := range batch {
		batch[i].TOS |= 3
	}
	m.Writer.Inbound(batch)
}

// TestDissectorECN: a capture at the receiver of marked data has it with CE and its DSCP, and a congestion notification
// that goes back, not ECN-capable and with CS6.
func TestDissectorECN(t *testing.T) {
	families(t, func(t *testing.T, addr netip.Addr) {
		var a, b *end
		path := capture(t, func(w *Writer) {
			a = newEnd(t, userroce.Config{Addr: addr, ECN: true, DSCP: 26})
			b = newEnd(t, userroce.Config{Addr: addr, ECN: true, Port: userroce.AnyPort, Wire: marking{w}})
			require.NoError(t, a.uc.Connect(b.uc.Info()))
			require.NoError(t, b.uc.Connect(a.uc.Info()))
			a.writes(b, []uint32{mtu})
			a.poll(1) // the notification
		})
		got := dissect(t, path)
		require.Len(t, got, 2)
		tos := func(d dissected, dscp, ecn uint64) {
			prefix := map[bool]string{true: "ip.dsfield", false: "ipv6.tclass"}[addr.Is4()]
			d.equal(t, dscp, prefix+".dscp")
			d.equal(t, ecn, prefix+".ecn")
		}
		tos(got[0], 26, 3) // sent to a port that only the ends know
		tos(got[1], 48, 0)
		got[1].sound(t, addr)
		got[1].equal(t, opCNP, "infiniband.bth.opcode")
		got[1].equal(t, uint64(a.uc.Info().QPN), "infiniband.bth.destqp")
		got[1].equal(t, 0, "infiniband.bth.psn")
		require.EqualValues(t, 1, a.dev.Stats().Congestion.RPCNPHandled)
	})
}

// TestOpcodeName: the name that a person sees.
func TestOpcodeName(t *testing.T) {
	path := capture(t, func(w *Writer) {
		a, b := connected(t, netip.MustParseAddr("127.47.91.1"), w)
		a.writes(b, []uint32{16})
	})
	out, err := exec.Command("tshark", "-n", "-r", path, "-V").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "RDMA WRITE Only")
	require.Contains(t, string(out), "Unreliable Connection (UC)")
}
