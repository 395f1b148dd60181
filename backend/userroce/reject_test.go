// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A rejection is a packet that must be dropped for one reason and change nothing.
type rejection struct {
	name   string
	want   backend.DropReason
	change func(p *roce.Packet, n *int) // of a valid write of 64 bytes
	patch  func(b []byte)               // of the encoded packet, before its ICRC is made
}

const (
	openSeq    = 5
	openLength = 1000
)

var rejections = []rejection{
	{name: "other key", want: backend.DropKey, change: func(p *roce.Packet, _ *int) { p.RKey ^= 1 }},
	{name: "key zero", want: backend.DropKey, change: func(p *roce.Packet, _ *int) { p.RKey = 0 }},
	{name: "past the end by a byte", want: backend.DropBounds, change: func(p *roce.Packet, _ *int) { p.VA += openLength - 63 }},
	{name: "past the end", want: backend.DropBounds, change: func(p *roce.Packet, _ *int) { p.VA += openLength }},
	{name: "end of the message's addresses", want: backend.DropBounds, change: func(p *roce.Packet, _ *int) { p.VA += uint64(testMax) - 1 }},
	{name: "next message, not posted", want: backend.DropLate, change: func(p *roce.Packet, _ *int) { p.VA += uint64(testMax) }},
	{name: "message before, not posted", want: backend.DropLate, change: func(p *roce.Packet, _ *int) { p.VA -= uint64(testMax) }},
	{name: "last byte of the message before", want: backend.DropLate, change: func(p *roce.Packet, _ *int) { p.VA-- }},
	{name: "same slot, one round later", want: backend.DropLate, change: func(p *roce.Packet, _ *int) { p.VA += testSlots * uint64(testMax) }},
	{name: "same slot, 2^39 rounds before", want: backend.DropLate, change: func(p *roce.Packet, _ *int) { p.VA -= testSlots * uint64(testMax) << 39 }},
	{name: "same slot, one round later, no payload", want: backend.DropLate, change: func(p *roce.Packet, n *int) { p.VA += testSlots * uint64(testMax); *n = 0 }},
	{name: "no payload, other key", want: backend.DropKey, change: func(p *roce.Packet, n *int) { p.RKey ^= 1; *n = 0 }},
	{name: "more than the MTU", want: backend.DropMalformed, change: func(_ *roce.Packet, n *int) { *n = 1028 }},
	{name: "unknown QP, other random bits", want: backend.DropUnknownQP, change: func(p *roce.Packet, _ *int) { p.DestQP ^= 1 << 16 }},
	{name: "unknown QP, other index", want: backend.DropUnknownQP, change: func(p *roce.Packet, _ *int) { p.DestQP ^= 0x8000 }},
	{name: "QP 0", want: backend.DropUnknownQP, change: func(p *roce.Packet, _ *int) { p.DestQP = 0 }},
	{name: "other partition", want: backend.DropPKey, change: func(p *roce.Packet, _ *int) { p.PKey = 0x8001 }},
	{name: "partition zero", want: backend.DropPKey, change: func(p *roce.Packet, _ *int) { p.PKey = 0 }},
	{name: "write without immediate", want: backend.DropOpcode, change: func(p *roce.Packet, _ *int) { p.Opcode = roce.UCWriteOnly }},
	{name: "send", want: backend.DropOpcode, change: func(p *roce.Packet, _ *int) { p.Opcode = roce.UCSendOnlyImm }},
	{name: "reliable write", want: backend.DropOpcode, change: func(p *roce.Packet, _ *int) { p.Opcode = roce.RCWriteOnlyImm }},
	{name: "datagram to a UC queue pair", want: backend.DropOpcode, change: func(p *roce.Packet, _ *int) {
		p.Opcode, p.QKey = roce.UDSendOnly, roce.QKey(backend.DatagramQKey)
	}},
	{name: "first of several", want: backend.DropOpcode, change: func(p *roce.Packet, n *int) {
		p.Opcode, p.DMALength, *n = roce.UCWriteFirst, 2048, 1024
	}},
	{name: "congestion notification", want: backend.DropOpcode, change: func(p *roce.Packet, n *int) { p.Opcode, *n = roce.CNPOpcode, 16 }},
	{name: "unknown opcode", want: backend.DropOpcode, patch: func(b []byte) { b[0] = 0x3f }},
	{name: "header version 1", want: backend.DropMalformed, patch: func(b []byte) { b[1] |= 1 }},
	{name: "DMA length too small", want: backend.DropMalformed, patch: func(b []byte) { binary.BigEndian.PutUint32(b[24:], 63) }},
	{name: "DMA length too large", want: backend.DropMalformed, patch: func(b []byte) { binary.BigEndian.PutUint32(b[24:], 1<<31) }},
	{name: "pad in a full word", want: backend.DropMalformed, patch: func(b []byte) { b[1] |= 0x10 }},
}

func TestReject(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6, func(a, b *sideConfig) { a.mtu, b.mtu = 1024, 1024 })
		s := newStranger(t, a.d.addr, b.d)
		fill(b.mem, 3)
		before := append([]byte(nil), b.mem...)
		for _, x := range rejections {
			t.Run(x.name, func(t *testing.T) { testRejection(t, b, s, before, x) })
		}
	})
}

// packet makes the packet to be rejected by b, where a write to rkey and va would be accepted.
func (x rejection) packet(b *side, rkey uint32, va uint64) []byte {
	n := 64
	p := b.validWrite(rkey, va, n)
	if x.change != nil {
		x.change(&p, &n)
		if p.Opcode != roce.UCWriteFirst {
			p.DMALength = uint32(n)
		}
	}
	packet := encode(b.t, p, n)
	if x.patch != nil {
		x.patch(packet)
	}
	return packet
}

func testRejection(t *testing.T, b *side, s *stranger, before []byte, x rejection) {
	rkey, va := b.expose(openSeq, 4096, openLength)
	want := b.d.Stats().Drops
	want[x.want]++
	s.seal(x.packet(b, rkey, va))
	b.nothing(s.sent)
	require.Equal(t, want, b.d.Stats().Drops)
	sameBytes(t, before, b.mem)

	// The packet that it was made from is accepted.
	s.seal(encode(t, b.validWrite(rkey, va, 64), 64))
	require.Equal(t, []backend.Completion{{Kind: backend.KindWrite, Cookie: testCookie, Imm: 0x01020304, Len: 64}}, b.poll(1))
	require.NotEqual(t, before[4096:4096+64], b.mem[4096:4096+64])
	copy(b.mem[4096:4096+64], before[4096:])
	sameBytes(t, before, b.mem)
	b.table.StartRevoke(openSeq)
	require.True(t, b.table.Revoked(openSeq))
}

// TestRejectShort sends every length below the smallest write.
func TestRejectShort(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		rkey, va := b.expose(openSeq, 0, openLength)
		s := newStranger(t, a.d.addr, b.d)
		packet := encode(t, b.validWrite(rkey, va, 0), 0)
		for n := range len(packet) {
			if n < roce.MinPacket {
				s.send(packet[:n])
			} else {
				s.seal(append([]byte(nil), packet[:n]...))
			}
		}
		b.nothing(s.sent)
		require.Equal(t, map[string]uint64{"malformed": s.sent}, drops(b.d))
	})
}

// TestICRC flips every bit of a packet, one at a time. The one byte that the ICRC doesn't cover has
// only congestion marks, so those packets are good.
func TestICRC(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		rkey, va := b.expose(openSeq, 0, openLength)
		s := newStranger(t, a.d.addr, b.d)
		good := encode(t, b.validWrite(rkey, va, 32), 32)
		s.flow().Seed(len(good)).Seal(good)
		accepted := 0
		for bit := range 8 * len(good) {
			packet := append([]byte(nil), good...)
			packet[bit/8] ^= 1 << (bit % 8)
			s.send(packet)
			if bit/8 == 4 {
				require.Len(t, b.poll(1), 1)
				accepted++
			} else {
				b.nothing(s.sent)
			}
		}
		require.Equal(t, 8, accepted)
		require.Equal(t, map[string]uint64{"icrc": s.sent - 8}, drops(b.d))
	})
}

// TestSource sends a good packet from an address that isn't the peer's.
func TestSource(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(openSeq, 0, openLength)
	s := newStranger(t, loopback(), b.d)
	s.seal(encode(t, b.validWrite(rkey, va, 32), 32))
	b.nothing(1)
	require.Equal(t, map[string]uint64{"source": 1}, drops(b.d))

	// It is refused with the ICRC of the peer's address, too.
	s.from = newStranger(t, a.d.addr, b.d).from
	s.seal(encode(t, b.validWrite(rkey, va, 32), 32))
	b.nothing(2)
	require.Equal(t, map[string]uint64{"source": 1, "icrc": 1}, drops(b.d))
}

func TestAllowAnySource(t *testing.T) {
	a, b := newPair(t, false, func(_, b *sideConfig) { b.AllowAnySource = true })
	rkey, va := b.expose(openSeq, 0, openLength)
	s := newStranger(t, loopback(), b.d)
	s.seal(encode(t, b.validWrite(rkey, va, 32), 32))
	require.Len(t, b.poll(1), 1)
	require.Zero(t, b.d.WireStats().TranslatedSources)

	s.from = netip.AddrPortFrom(a.d.addr, s.from.Port()) // as an address translator leaves it
	packet := encode(t, b.validWrite(rkey, va, 32), 32)
	s.seal(packet)
	require.Len(t, b.poll(1), 1)
	require.EqualValues(t, 1, b.d.WireStats().TranslatedSources)

	packet[len(packet)-9] ^= 1
	s.send(packet)
	b.nothing(3)
	require.Equal(t, map[string]uint64{"icrc": 1}, drops(b.d))
}

// TestUnconnected sends to a queue pair that has no peer yet, has no table, and is closed.
func TestUnconnected(t *testing.T) {
	a := newSide(t, sideConfig{Config: testConfig(t, false)})
	b := newSide(t, sideConfig{Config: testConfig(t, false)})
	rkey, va := b.expose(openSeq, 0, openLength)
	s := newStranger(t, a.d.addr, b.d)
	packet := encode(t, b.validWrite(rkey, va, 32), 32)
	s.seal(packet)
	b.nothing(1)
	require.Equal(t, map[string]uint64{"unknown_qp": 1}, drops(b.d))
	packet[40] ^= 1 // no peer can excuse that
	s.send(packet)
	b.nothing(2)
	require.Equal(t, map[string]uint64{"unknown_qp": 1, "icrc": 1}, drops(b.d))

	bare, err := b.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: b.cq, RecvCQ: b.cq, MTU: 1024})
	require.NoError(t, err)
	require.NoError(t, bare.Connect(withMTU(a.qp.Info(), 1024)))
	p := b.validWrite(rkey, va, 32)
	p.DestQP = roce.QPN(bare.Info().QPN)
	s.seal(encode(t, p, 32))
	b.nothing(3)
	require.Equal(t, map[string]uint64{"unknown_qp": 1, "icrc": 1, "rkey": 1}, drops(b.d))

	require.NoError(t, bare.Close())
	s.seal(encode(t, p, 32))
	b.nothing(4)
	require.Equal(t, map[string]uint64{"unknown_qp": 2, "icrc": 1, "rkey": 1}, drops(b.d))
}

// TestZeroLength: packets without payload carry their immediate, at any address of their own message.
func TestZeroLength(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		rkey, va := b.expose(openSeq, 0, 10)
		for i, off := range []uint64{0, 10, 4096, uint64(testMax) - 1} {
			a.post(backend.Write{VA: va + off, RKey: rkey, Imm: uint32(i)})
		}
		got := b.poll(4)
		require.Len(t, got, 4)
		for i, c := range got {
			require.Equal(t, backend.Completion{Kind: backend.KindWrite, Cookie: testCookie, Imm: uint32(i)}, c)
		}
		b.table.StartRevoke(openSeq)
		a.post(backend.Write{VA: va, RKey: rkey})
		b.nothing(5)
		require.Equal(t, map[string]uint64{"late": 1}, drops(b.d))

		// An empty entry takes them too.
		_, va = b.expose(openSeq+1, 0, 0)
		a.post(backend.Write{VA: va, RKey: rkey})
		require.Len(t, b.poll(1), 1)
		a.post(backend.Write{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 1})
		b.nothing(7)
		require.Equal(t, map[string]uint64{"late": 1, "bounds": 1}, drops(b.d))
	})
}

// TestSequenceWrap uses sequences around the largest, and such as differ only beyond the address.
func TestSequenceWrap(t *testing.T) {
	a, b := newPair(t, false)
	for _, n := range []uint64{1<<64 - 2, 1<<64 - 1, 0, 1} {
		rkey, va := b.expose(n, 0, 64)
		require.Equal(t, n*uint64(testMax), va)
		a.post(backend.Write{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 64, Imm: uint32(n)})
		require.Len(t, b.poll(1), 1)
		b.table.StartRevoke(n)
		require.True(t, b.table.Revoked(n))
	}
}

func withMTU(i backend.QPInfo, mtu units.Bytes) backend.QPInfo {
	i.MTU = mtu
	return i
}
