// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// withTrim configures both sides.
func withTrim(a, b *sideConfig) { a.Trim, b.Trim = true, true }

// cutter is a wire that cuts every n-th packet of data to keep bytes of UDP payload, as a switch does.
func cutter(every, keep int, tos uint8) *testWire {
	seen := 0
	return &testWire{in: func(p *backend.WirePacket) {
		if seen++; seen%every == 0 && len(p.Data) > keep {
			p.Data, p.TOS = p.Data[:keep], tos|p.TOS&ecnMask
		}
	}}
}

// TestTrimmed: what a switch has cut, to whatever length that leaves the headers, comes back to its sender as what it
// was, and nothing of it is placed or completes; repeats of just those make the message whole. Both
// ways of marking it, the tag and a code point of today's switches, which leave 256 bytes of frame.
func TestTrimmed(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, c := range []struct {
			keep           int
			dscp, trimDSCP uint8
			data, cut      uint8 // TOS
		}{
			{roce.TrimmedSize, 0, 0, 2 << 2, 3 << 2},
			{roce.TrimmedSize + 1, 8, 0, 8<<2 | 2<<2, 8<<2 | 3<<2},
			{1023 + roce.UCWriteImmOverhead, 0, 0, 2 << 2, 3 << 2},
			{256 - 42, 26, 27, 26 << 2, 27 << 2},
			{256 - 42, 0, 5, 0, 5 << 2},
		} {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				cut := cutter(3, c.keep, c.cut)
				var back []backend.WirePacket
				returns := &testWire{in: func(p *backend.WirePacket) {
					back = append(back, backend.WirePacket{Src: p.Src, Dst: p.Dst, TOS: p.TOS, Data: bytes.Clone(p.Data)})
				}}
				a, b := newPair(t, v6, withTrim, func(a, b *sideConfig) {
					a.mtu, b.mtu = 1024, 1024
					a.DSCP, b.DSCP, a.TrimDSCP, b.TrimDSCP = c.dscp, c.dscp, c.trimDSCP, c.trimDSCP
					a.Wire, b.Wire = returns, cut
				})
				fill(a.mem, 5)
				rkey, va := b.expose(0, 0, testMax)
				const packets = 30
				w := a.message(rkey, va, packets*1024, 1024)
				a.post(w...)
				require.Len(t, b.poll(packets*2/3), packets*2/3)
				got := a.poll(packets / 3)
				require.Len(t, got, packets/3)
				for i, x := range got {
					lost := &w[3*i+2]
					require.Equal(t, backend.Completion{
						WRID: lost.VA, Cookie: testCookie, Imm: lost.Imm, Len: lost.Length, Kind: backend.KindTrimmed,
					}, x)
					require.Equal(t, make([]byte, 1024), b.mem[lost.Offset:lost.Offset+1024], "placed")
					f, err := roce.NewFlow(back[i].Src, back[i].Dst)
					require.NoError(t, err)
					require.True(t, f.Seed(len(back[i].Data)).Verify(back[i].Data))
					require.Len(t, back[i].Data, roce.ReturnedSize)
					require.Equal(t, c.cut, back[i].TOS)
				}
				require.Equal(t, backend.TrimStats{Seen: packets / 3, SentBack: packets / 3}, b.d.Stats().Trim)
				require.Equal(t, backend.TrimStats{Reported: packets / 3}, a.d.Stats().Trim)
				require.Zero(t, a.d.Stats().BytesReceived, "headers have no payload")
				cut.mu.Lock()
				cut.in = func(p *backend.WirePacket) { require.Equal(t, c.data, p.TOS&^ecnMask) }
				cut.mu.Unlock()
				for i := range got {
					a.post(w[3*i+2])
				}
				require.Len(t, b.poll(packets/3), packets/3)
				sameBytes(t, a.mem[:packets*1024], b.mem[:packets*1024])
				require.Empty(t, drops(a.d))
				require.Empty(t, drops(b.d))
			})
		}
	})
}

// TestTrimmedByTheKernelsTOS: the TOS of packets is what sockets read, for single packets and trains, in both directions of
// one queue pair at a time, where trimmed headers and those that come back cross.
func TestTrimmedByTheKernelsTOS(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6, withTrim, withECN)
		const n = 40
		for _, x := range [][2]*side{{a, b}, {b, a}} {
			from, to := x[0], x[1]
			rkey, va := to.expose(0, 0, testMax)
			s := newStranger(t, from.d.addr, to.d)
			s.setTOS(tagHO|ecnCE, v6)
			for i := range n {
				p := to.validWrite(rkey, va+uint64(i)*1024, 1024)
				p.Imm = uint32(i)
				s.send(encode(t, p, 1024)[:roce.TrimmedSize])
			}
		}
		deadline := time.Now().Add(10 * time.Second)
		for got := 0; got < 2*n && time.Now().Before(deadline); {
			for _, e := range []*side{a, b} {
				k, err := e.cq.Poll(e.d.Now(), e.batch[:])
				require.NoError(t, err)
				for _, x := range e.batch[:k] {
					require.Equal(t, backend.KindTrimmed, x.Kind)
				}
				got += k
			}
		}
		sum := a.d.Stats()
		bs := b.d.Stats()
		sum.Add(&bs)
		require.Equal(t, backend.TrimStats{Seen: 2 * n, SentBack: 2 * n, Reported: 2 * n}, sum.Trim)
	})
}

// setTOS gives what s sends a TOS.
func (s *stranger) setTOS(tos int, v6 bool) {
	s.t.Helper()
	if v6 {
		require.NoError(s.t, unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos))
		return
	}
	require.NoError(s.t, unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_TOS, tos))
}

// TestForgedTrimmed: header-only packets that are wrong in any way cost nothing but a count, and right ones from
// anybody one packet to the connected peer, wherever they came from: nothing is placed and nothing completes.
func TestForgedTrimmed(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6, withTrim)
		fill(b.mem, 3)
		canary := bytes.Clone(b.mem)
		rkey, va := b.expose(3, 0, 4096)
		cut := func(change func(p *roce.Packet)) []byte {
			p := b.validWrite(rkey, va, 1024)
			if change != nil {
				change(&p)
			}
			return encode(t, p, int(p.DMALength))[:roce.TrimmedSize]
		}
		peer, self := newStranger(t, a.d.addr, b.d), newStranger(t, b.d.addr, b.d)
		peer.setTOS(tagHO, v6)
		self.setTOS(tagHO, v6)
		plain := newStranger(t, a.d.addr, b.d)
		sent := func() uint64 { return peer.sent + self.sent + plain.sent }
		want := map[string]uint64{}
		ignored := func(s *stranger, packet []byte, reason string) {
			t.Helper()
			s.send(packet)
			want[reason]++
			b.nothing(sent())
			require.Equal(t, want, drops(b.d))
			require.Zero(t, b.d.Stats().Trim)
		}
		for n := range roce.TrimmedSize { // below the RETH nothing can be said
			ignored(peer, cut(nil)[:n], map[bool]string{true: "malformed", false: "icrc"}[n < roce.MinPacket])
		}
		ignored(plain, cut(nil), "icrc")
		ignored(peer, cut(func(p *roce.Packet) { p.RKey++ }), "rkey")
		ignored(peer, cut(func(p *roce.Packet) { p.DestQP ^= 0x10000 }), "unknown_qp")
		ignored(peer, cut(func(p *roce.Packet) { p.DestQP = roce.QPN(b.newUD().Info().QPN) }), "opcode")
		ignored(peer, cut(func(p *roce.Packet) { p.PKey = 1 }), "pkey")
		ignored(peer, cut(func(p *roce.Packet) { p.VA += testSlots * uint64(testMax) }), "late")
		ignored(peer, cut(func(p *roce.Packet) { p.VA += uint64(testMax) }), "late")
		ignored(peer, cut(func(p *roce.Packet) { p.VA += 4096 - 1023 }), "bounds")
		long := cut(nil)
		binary.BigEndian.PutUint32(long[roce.BTHSize+12:], 4096+1) // more than any MTU
		ignored(peer, long, "icrc")
		other := cut(nil)
		other[0] = byte(roce.RCWriteOnlyImm)
		ignored(peer, other, "icrc")
		if !v6 { // the only address is ::1
			ignored(self, cut(nil), "source")
		}

		// Right ones, the same again and again: each is one packet to the peer.
		const same = 5
		for range same {
			peer.send(cut(nil))
		}
		b.nothing(sent())
		require.Equal(t, backend.TrimStats{Seen: same, SentBack: same}, b.d.Stats().Trim)
		require.Len(t, a.poll(same), same)

		// A whole packet is one, whatever its tag says.
		p := b.validWrite(rkey, va, 1024)
		peer.seal(encode(t, p, 1024))
		require.Len(t, b.poll(1), 1)
		copy(b.mem, canary[:1024])

		// A message that has been completed: nobody waits for its packets.
		b.table.StartRevoke(3)
		before := want["late"]
		for range 20 {
			peer.send(cut(nil))
		}
		b.nothing(sent())
		require.Equal(t, before+20, b.d.Stats().Drops[backend.DropLate])
		require.EqualValues(t, same, b.d.Stats().Trim.Seen)
		require.Equal(t, canary, b.mem)
	})
}

// TestForgedReturns: headers that are sent back need a right ICRC and the peer's address, and are reported once each.
func TestForgedReturns(t *testing.T) {
	a, b := newPair(t, false, withTrim)
	back := func(e *side, change func(w *roce.UCWriteImm)) []byte {
		w := roce.UCWriteImm{VA: 1 << 40, RKey: 7, Imm: 5, Length: 1024, DestQP: roce.QPN(e.qp.Info().QPN), PKey: roce.DefaultPKey, Returned: true}
		if change != nil {
			change(&w)
		}
		p := make([]byte, roce.ReturnedSize)
		w.Encode(p)
		return p
	}
	peer, stranger := newStranger(t, b.d.addr, a.d), newStranger(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.d)
	peer.setTOS(tagHO, false)
	sent := func() uint64 { return peer.sent + stranger.sent }
	want := map[string]uint64{}
	ignored := func(reason string, send func()) {
		t.Helper()
		send()
		want[reason]++
		a.nothing(sent())
		require.Equal(t, want, drops(a.d))
	}
	ignored("icrc", func() { peer.send(back(a, nil)) })
	ignored("icrc", func() { peer.send(back(a, nil)[:roce.TrimmedSize]) })
	ignored("source", func() { stranger.seal(back(a, nil)) })
	ignored("unknown_qp", func() {
		peer.seal(back(b, func(w *roce.UCWriteImm) { w.DestQP = roce.QPN(a.qp.Info().QPN) ^ 0x10000 }))
	})
	ignored("malformed", func() { peer.seal(append(back(a, nil), 0, 0, 0, 0)) })
	ignored("rkey", func() { peer.seal(back(a, func(w *roce.UCWriteImm) { w.Returned = false })) })
	const same = 9
	for range same {
		peer.seal(back(a, nil))
	}
	got := a.poll(same)
	require.Len(t, got, same)
	require.Equal(t, backend.Completion{WRID: 1 << 40, Cookie: testCookie, Imm: 5, Len: 1024, Kind: backend.KindTrimmed}, got[0])
	require.Equal(t, backend.TrimStats{Reported: same}, a.d.Stats().Trim)
}

// TestTrimNeedsBoth: an end that doesn't say that it sends headers back gets data that isn't trimmable, and headers that
// come back from it are ignored.
func TestTrimNeedsBoth(t *testing.T) {
	seen := map[uint8]int{}
	a, b := newPair(t, false, func(a, b *sideConfig) { a.Trim, b.ECN, b.Wire = true, true, tosOf(seen) })
	require.Equal(t, backend.FlagTrim, a.qp.Info().Flags&backend.FlagTrim)
	require.Zero(t, b.qp.Info().Flags&backend.FlagTrim)
	require.True(t, a.d.Caps().Trims)
	require.False(t, b.d.Caps().Trims)
	rkey, va := b.expose(0, 0, testMax)
	a.post(a.message(rkey, va, 4*4096, 4096)...)
	require.Len(t, b.poll(4), 4)
	require.Equal(t, map[uint8]int{0: 4}, seen)
	s := newStranger(t, b.d.addr, a.d)
	w := roce.UCWriteImm{Length: 1024, DestQP: roce.QPN(a.qp.Info().QPN), PKey: roce.DefaultPKey, Returned: true}
	p := make([]byte, roce.ReturnedSize)
	w.Encode(p)
	s.seal(p)
	a.nothing(1)
	require.Equal(t, map[string]uint64{"opcode": 1}, drops(a.d))
}

// TestTrimConfig: options that make no sense are refused with their name.
func TestTrimConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"DSCP 5: choose a multiple of 4": {Trim: true, DSCP: 5},
		"TrimDSCP 64: choose 1 to 63":    {Trim: true, TrimDSCP: 64},
		"TrimDSCP 8: set Trim":           {TrimDSCP: 8},
		"choose another than DSCP, 8":    {Trim: true, TrimDSCP: 8, DSCP: 8},
		"and that of control, 48":        {Trim: true, TrimDSCP: 48},
	} {
		_, err := c.withDefaults()
		require.ErrorContains(t, err, want)
	}
	_, err := (Config{Trim: true, TrimDSCP: 9, DSCP: 5}).withDefaults()
	require.NoError(t, err)
}

// TestTrimmedNames: a header-only packet with the names of 64 writes goes back as one, without those that nobody waits for, and its
// sender hears of each, however little room it has for completions at a time.
func TestTrimmedNames(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		var back [][]byte
		a, b := newPair(t, v6, withTrim, func(a, b *sideConfig) {
			a.mtu, b.mtu = 1024, 1024
			a.Wire = &testWire{in: func(p *backend.WirePacket) { back = append(back, bytes.Clone(p.Data)) }}
		})
		canary := bytes.Clone(b.mem)
		rkey, va := b.expose(2, 0, 100*1024)
		packet := func(names int, change func(i int, va uint64) uint64) []byte {
			w := roce.UCWriteImm{
				VA: va, RKey: rkey, Imm: 1000, Length: 1024, DestQP: roce.QPN(b.qp.Info().QPN), PKey: roce.DefaultPKey, More: uint8(names - 1),
			}
			p := make([]byte, roce.TrimmedSize+(names-1)*roce.NameSize)
			w.Encode(p)
			for i := range names - 1 {
				roce.PutName(p, i, change(i, va+uint64(i+1)*1024), uint32(1001+i))
			}
			return p
		}
		right := func(_ int, va uint64) uint64 { return va }
		s := newStranger(t, a.d.addr, b.d)
		s.setTOS(tagHO, v6)
		s.send(packet(roce.MostTrimmed, right))
		b.nothing(1)
		require.Equal(t, backend.TrimStats{Seen: 64, SentBack: 64}, b.d.Stats().Trim)
		var got []backend.Completion
		for deadline := time.Now().Add(10 * time.Second); len(got) < 64 && time.Now().Before(deadline); {
			n, err := a.cq.Poll(a.d.Now(), a.batch[:7])
			require.NoError(t, err)
			got = append(got, a.batch[:n]...)
		}
		require.Len(t, got, 64)
		for i, c := range got {
			require.Equal(t, backend.Completion{
				WRID: va + uint64(i)*1024, Cookie: testCookie, Imm: uint32(1000 + i), Len: 1024, Kind: backend.KindTrimmed,
			}, c)
		}
		require.Equal(t, backend.TrimStats{Reported: 64}, a.d.Stats().Trim)
		require.Len(t, back, 1)
		require.Len(t, back[0], roce.ReturnedSize+63*roce.NameSize)

		// Of four names one is beyond the message, and one of a message that nobody waits for.
		s.send(packet(4, func(i int, va uint64) uint64 {
			return va + []uint64{0, 98 * 1024, uint64(testMax)}[i]
		}))
		b.nothing(2)
		require.Equal(t, map[string]uint64{"bounds": 1, "late": 1}, drops(b.d))
		require.Len(t, a.poll(2), 2)
		require.Equal(t, backend.TrimStats{Reported: 66}, a.d.Stats().Trim)

		// Names and length that don't agree are nothing of the kind, and a packet without a right name goes nowhere.
		for _, wrong := range [][]byte{packet(4, right)[:roce.TrimmedSize+16], append(packet(4, right), 0), packet(4, right)[:roce.TrimmedSize]} {
			s.send(wrong)
		}
		none := packet(3, func(_ int, va uint64) uint64 { return va + 2*uint64(testMax) })
		binary.BigEndian.PutUint64(none[roce.BTHSize:], va+3*uint64(testMax))
		s.send(none)
		b.nothing(6)
		require.Equal(t, map[string]uint64{"bounds": 1, "late": 4, "icrc": 3}, drops(b.d))
		require.EqualValues(t, 66, b.d.Stats().Trim.Seen)
		require.Equal(t, canary, b.mem)
		require.EqualValues(t, 2, b.d.Stats().PacketsSent)
	})
}

// TestTrimmedNamesOfSmallWrites: headers that go back with as many names as the write is long are as long as that write, which they
// aren't. Their sender hears of each name all the same.
func TestTrimmedNamesOfSmallWrites(t *testing.T) {
	a, b := newPair(t, false, withTrim, func(a, b *sideConfig) { a.mtu, b.mtu = 256, 256 })
	s := newStranger(t, a.d.addr, b.d)
	s.setTOS(tagHO, false)
	for n, length := range []int{6, 8, 255, 256} {
		names := (length + roce.NameSize - 1) / roce.NameSize
		rkey, va := b.expose(uint64(n), 0, units.Bytes((names+1)*length))
		w := roce.UCWriteImm{VA: va, RKey: rkey, Length: uint32(length), DestQP: roce.QPN(b.qp.Info().QPN), PKey: roce.DefaultPKey, More: uint8(names)}
		p := make([]byte, roce.TrimmedSize+names*roce.NameSize)
		w.Encode(p)
		for i := range names {
			roce.PutName(p, i, va+uint64((i+1)*length), uint32(i+1))
		}
		s.send(p)
		b.nothing(uint64(n + 1))
		got := a.poll(1 + names)
		require.Len(t, got, 1+names, "writes of %d bytes", length)
		for i, c := range got {
			require.Equal(t, backend.Completion{
				WRID: va + uint64(i*length), Cookie: testCookie, Imm: uint32(i), Len: uint32(length), Kind: backend.KindTrimmed,
			}, c)
		}
	}
	require.Empty(t, drops(a.d))
}

// TestTrimmedNamesOfAClosedQP: what a queue pair that is closed has not yet been told of its trimmed writes is forgotten, and so
// it is when its completion queue is closed, too, and another one reads the socket.
func TestTrimmedNamesOfAClosedQP(t *testing.T) {
	for _, another := range []bool{false, true} {
		a, b := newPair(t, false, withTrim)
		w := roce.UCWriteImm{Length: 1024, DestQP: roce.QPN(a.qp.Info().QPN), PKey: roce.DefaultPKey, Returned: true, More: 3}
		p := make([]byte, roce.ReturnedSize+3*roce.NameSize)
		w.Encode(p)
		newStranger(t, b.d.addr, a.d).seal(p)
		for n, begin := 0, time.Now(); n == 0; {
			require.Less(t, time.Since(begin), 10*time.Second)
			var err error
			n, err = a.cq.Poll(a.d.Now(), a.batch[:1])
			require.NoError(t, err)
		}
		require.Zero(t, a.cq.Next(), "three more are there")
		require.NoError(t, a.qp.Close())
		if another {
			require.NoError(t, a.cq.Close())
			var err error
			a.cq, err = a.d.NewCQ(backend.CQConfig{Entries: 10})
			require.NoError(t, err)
		}
		n, err := a.cq.Poll(a.d.Now(), a.batch[:])
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, units.Never, a.cq.Next())

		a.qp, err = a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Table: a.table, MTU: 4096})
		require.NoError(t, err)
		require.NoError(t, a.qp.Connect(b.qp.Info()))
		rkey, va := a.expose(0, 0, 10)
		newStranger(t, b.d.addr, a.d).seal(encode(t, a.validWrite(rkey, va, 4), 4))
		require.Len(t, a.poll(1), 1)
		require.Empty(t, drops(a.d))
	}
}

// TestTrimmedWhereTheMTUIsSmall: a header of more than the queue pair's MTU is none of ours.
func TestTrimmedWhereTheMTUIsSmall(t *testing.T) {
	a, b := newPair(t, false, withTrim, func(a, b *sideConfig) { a.mtu, b.mtu = 256, 256 })
	rkey, va := b.expose(0, 0, testMax)
	s := newStranger(t, a.d.addr, b.d)
	s.setTOS(tagHO, false)
	s.send(encode(t, b.validWrite(rkey, va, 512), 512)[:roce.TrimmedSize])
	b.nothing(1)
	require.Equal(t, map[string]uint64{"malformed": 1}, drops(b.d))
	require.Equal(t, units.Bytes(256), b.qp.Info().MTU)
}
