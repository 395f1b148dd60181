// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// message makes the writes that carry length bytes from offset 0 of e's memory to va, one a packet.
func (e *side) message(rkey uint32, va uint64, length, mtu units.Bytes) []backend.Write {
	var w []backend.Write
	for off := units.Bytes(0); off < length; off += mtu {
		w = append(w, backend.Write{
			WRID: uint64(off), VA: va + uint64(off), RKey: rkey, LKey: e.mr.LKey(), Offset: off,
			Length: uint32(min(mtu, length-off)), Imm: uint32(off / mtu),
		})
	}
	return w
}

func testDelivery(t *testing.T, a, b *side, mtu units.Bytes) {
	fill(a.mem, 1)
	for i, length := range []units.Bytes{1, 3, 4, mtu - 1, mtu, mtu + 1, 3*mtu + 5, 14 * mtu, 15*mtu + 1, 40*mtu + 2, 200 * mtu} {
		n, at := uint64(i), units.Bytes(i)*8
		rkey, va := b.expose(n, at, length)
		w := a.message(rkey, va, length, mtu)
		w[len(w)-1].Signaled = true
		clear(b.mem)
		a.post(w...)
		got := b.poll(len(w))
		require.Len(t, got, len(w))
		seen := make([]bool, len(w))
		for _, c := range got {
			require.Equal(t, backend.Completion{
				Kind: backend.KindWrite, Cookie: testCookie, Imm: c.Imm, Len: w[c.Imm].Length,
			}, c)
			require.False(t, seen[c.Imm])
			seen[c.Imm] = true
		}
		sameBytes(t, a.mem[:length], b.mem[at:at+length])
		for _, x := range [][]byte{b.mem[:at], b.mem[at+length : at+length+64]} {
			sameBytes(t, make([]byte, len(x)), x)
		}
		require.Equal(t, []backend.Completion{{Kind: backend.KindSent, Cookie: testCookie, WRID: w[len(w)-1].WRID}}, a.poll(1))
		b.table.StartRevoke(n)
		require.True(t, b.table.Revoked(n))
	}
	sa, sb := a.d.Stats(), b.d.Stats()
	require.Equal(t, sa.PacketsSent, sb.PacketsReceived)
	require.Equal(t, sa.BytesSent, sb.BytesReceived)
	require.Zero(t, sb.Drops)
}

func TestDelivery(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, mtu := range []units.Bytes{256, 1024, 4096} {
			a, b := newPair(t, v6, func(a, b *sideConfig) { a.mtu, b.mtu = mtu, mtu })
			testDelivery(t, a, b, mtu)
			require.True(t, a.d.WireStats().SegmentationOffload, "this kernel has UDP_SEGMENT")
			require.NotZero(t, a.d.WireStats().SendTrains)
			require.NotZero(t, b.d.WireStats().RecvTrains)
		}
	})
}

func TestDeliveryWithoutOffload(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, off := range []func(a, b *sideConfig){
			func(a, b *sideConfig) { a.DisableGSO = true },
			func(a, b *sideConfig) { b.DisableGRO = true },
			func(a, b *sideConfig) { a.DisableGSO, b.DisableGRO = true, true },
		} {
			a, b := newPair(t, v6, off)
			testDelivery(t, a, b, 4096)
			if a.d.cfg.DisableGSO {
				require.Zero(t, a.d.WireStats().SendTrains)
			}
			if b.d.cfg.DisableGRO {
				require.Zero(t, b.d.WireStats().RecvTrains)
			}
		}
	})
}

// TestMixedSizes posts writes of all sizes in one call: trains end where they must.
func TestMixedSizes(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6)
		fill(a.mem, 2)
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 0))
		for round := range uint64(40) {
			rkey, va := b.expose(round, 0, testMax)
			clear(b.mem[:testMax])
			want := make([]byte, testMax)
			var w []backend.Write
			size := uint32(rng.IntN(4097))
			for off := units.Bytes(0); len(w) < 200 && off < testMax-4096; off += 4096 {
				switch rng.IntN(6) { // runs of one size, with steps up and down
				case 0:
					size = uint32(rng.IntN(4097))
				case 1:
					size = uint32(rng.IntN(20))
				case 2:
					size = 4096
				}
				w = append(w, backend.Write{
					VA: va + uint64(off), RKey: rkey, LKey: a.mr.LKey(), Offset: off + units.Bytes(round), Length: size, Imm: uint32(len(w)),
				})
				copy(want[off:], a.mem[off+units.Bytes(round):][:size])
			}
			a.post(w...)
			got := b.poll(len(w))
			require.Len(t, got, len(w), "seed %d, round %d", seed, round)
			for i, c := range got {
				require.EqualValues(t, i, c.Imm)
				require.Equal(t, w[i].Length, c.Len)
			}
			sameBytes(t, want, b.mem[:testMax])
			b.table.StartRevoke(round)
		}
		require.Zero(t, b.d.Stats().Drops)
	})
}

// TestSegmentationRefused: where the kernel has UDP_SEGMENT and the path to the peer can't do it, the
// device notices at the first train, and nothing is lost. A socket without checksums is such a path.
func TestSegmentationRefused(t *testing.T) {
	var log bytes.Buffer
	a, b := newPair(t, false, func(a, _ *sideConfig) { a.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	require.NoError(t, unix.SetsockoptInt(a.d.senders[0].fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	log.Reset()
	testDelivery(t, a, b, 4096)
	require.False(t, a.d.WireStats().SegmentationOffload)
	require.Zero(t, a.d.WireStats().SendTrains)
	require.Equal(t, 1, strings.Count(log.String(), "can't segment UDP"))
}

// TestZeroChecksum: packets over IPv6 with UDP checksum 0 are taken, because kernel rxe sends such.
func TestZeroChecksum(t *testing.T) {
	a, b := newPair(t, true)
	rkey, va := b.expose(0, 0, 64)
	s := newStranger(t, a.d.addr, b.d)
	require.NoError(t, unix.SetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_TX, 1))
	s.seal(encode(t, b.validWrite(rkey, va, 64), 64))
	require.Len(t, b.poll(1), 1)
}

// TestFetchNext: what is fetched for the next packet lies behind the payload of the last one in its message, and nothing is
// when Poll has ended, as the memory may be revoked then.
func TestFetchNext(t *testing.T) {
	const n = 4096
	from, to := newPair(t, false)
	rkey, va := to.expose(0, 0, 3*n-8)
	here := &to.d.receivers[0].responder
	s := newStranger(t, from.d.addr, to.d)
	for i, left := range []int{n, n - 8} {
		w := to.validWrite(rkey, va+uint64(i)*n, n)
		packet := encode(t, w, n)
		s.seal(packet)
		if i == 0 { // the source of the flow
			require.Len(t, to.poll(1), 1)
			require.Empty(t, here.next, "after Poll")
		}
		var c backend.Completion
		copy(here.r.batch.buf, packet)
		require.True(t, here.handle(0, len(packet), &c))
		require.Len(t, here.next, left, "behind packet %d", i)
		require.Same(t, &to.mem[(i+1)*n], &here.next[0])
	}
	here.publish()
	require.Empty(t, here.next)
}
