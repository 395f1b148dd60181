// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// dropFirst loses, for each message, the first datagram that carries a frame of type t about it.
func dropFirst(t wire.Type) func(sim.PacketInfo) sim.Verdict {
	seen := map[uint64]bool{}
	return func(i sim.PacketInfo) sim.Verdict {
		if i.Kind != backend.KindDatagram {
			return sim.Deliver
		}
		_, rest, err := wire.ParseHeader(i.Data)
		if err != nil {
			return sim.Deliver
		}
		v := sim.Deliver
		r := wire.NewReader(rest)
		for f := (wire.Frame{}); r.Next(&f); {
			id := f.ID<<1 | uint64(i.Direction)&1
			if f.Type == t && !seen[id] {
				seen[id], v = true, sim.Drop
			}
		}
		return v
	}
}

// TestEveryLength sends messages of every length from 0 to 3 chunks, with a user immediate, while the
// zero-length packet of one fragment, or the first copy of one kind of control frame, is lost for each
// message. All of each message arrives, and nothing beside it.
func TestEveryLength(t *testing.T) {
	lost := map[string]func(sim.PacketInfo) sim.Verdict{"nothing": nil}
	for _, ty := range []wire.Type{wire.TypeCTS, wire.TypeStart, wire.TypeEnd, wire.TypeCompleted, wire.TypeAck} {
		lost[ty.String()] = dropFirst(ty)
	}
	for fragment := range everyLength.Split.Fragments() {
		lost[fmt.Sprintf("fragment %d", fragment)] = func(i sim.PacketInfo) sim.Verdict {
			if i.Kind == backend.KindWrite && i.Length == 0 && int(i.Imm>>4&(1<<24-1)) == fragment {
				return sim.Drop
			}
			return sim.Deliver
		}
	}
	for name, filter := range lost {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms / 10}, Seed: 1}, everyLength)
			dropped := 0
			p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
				if filter == nil {
					return sim.Deliver
				}
				v := filter(i)
				if v == sim.Drop {
					dropped++
				}
				return v
			})
			e := newLengths(p)
			stride := 1
			if testing.Short() || race.Enabled {
				stride = 13
			}
			for n := 0; n <= 3*chunkBytes; n += stride * together {
				e.exchange(n, stride)
			}
			require.Equal(t, filter != nil, dropped > 0, "%d losses", dropped)
		})
	}
}

const (
	chunkBytes = 256 // one packet of the least MTU
	together   = 8   // messages at once
	room       = 4 * chunkBytes
)

var everyLength = sdr.QPConfig{MTU: 256, Chunk: chunkBytes, Channels: 2, MaxMessage: 1024, Split: sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}}

// lengths sends messages of consecutive lengths from one source into buffers with canaries between them.
type lengths struct {
	*pair
	src, dst *sdr.MR
}

func newLengths(p *pair) *lengths {
	return &lengths{p, p.mr(0, 4*chunkBytes, true), p.mr(1, together*room, false)}
}

// exchange sends messages of n, n+stride, … bytes.
func (e *lengths) exchange(n, stride int) {
	t := e.t
	var recvs [together]sdr.RecvHandle
	var sends [together]sdr.SendHandle
	for i := range e.dst.Bytes() {
		e.dst.Bytes()[i] = 0xc5
	}
	want := bytes.Clone(e.dst.Bytes())
	for i := range together {
		e.until(units.Second, func() bool {
			var err error
			recvs[i], err = e.qp[1].PostRecv(e.dst, units.Bytes(i)*room+64, room-128)
			return err == nil
		})
		length := min(n+i*stride, 3*chunkBytes)
		var err error
		sends[i], err = e.qp[0].PostSend(e.src, units.Bytes(i), units.Bytes(length), sdr.SendOptions{Imm: uint32(length) ^ 0xdead0000, HasImm: true})
		require.NoError(t, err)
		copy(want[i*room+64:], e.src.Bytes()[i:i+length])
	}
	for i, r := range recvs {
		length := min(n+i*stride, 3*chunkBytes)
		e.until(10*units.Second, func() bool {
			all, err := r.Bitmap().AllSet(), r.Bitmap().Err()
			require.NoError(t, err)
			_, known := r.Length()
			imm, ok, _ := r.Imm()
			return all && known && ok && imm == uint32(length)^0xdead0000
		})
		got, _ := r.Length()
		require.EqualValues(t, length, got)
		require.NoError(t, r.Complete())
		e.until(10*units.Second, func() bool {
			done, err := sends[i].Poll()
			require.NoError(t, err)
			return done && r.Done()
		})
	}
	require.True(t, bytes.Equal(want, e.dst.Bytes()), "lengths from %d", n)
}

// TestAbortOfEveryLength sends messages into buffers that are a byte too short, while the first ABORT of
// each is lost. Both sides are notified, nothing is written, and the messages after it are well.
func TestAbortOfEveryLength(t *testing.T) {
	p := newPair(t, sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms / 10}, Seed: 1}, everyLength)
	p.net.SetFilter(dropFirst(wire.TypeAbort))
	src, dst := p.mr(0, 4*chunkBytes, true), p.mr(1, 4*chunkBytes, false)
	e := newLengths(p)
	for n := units.Bytes(1); n <= 3*chunkBytes; n++ {
		var r sdr.RecvHandle
		p.until(units.Second, func() bool {
			var err error
			r, err = p.qp[1].PostRecv(dst, 0, n-1)
			return err == nil
		})
		s, err := p.qp[0].PostSend(src, 0, n, sdr.SendOptions{Imm: 1, HasImm: true})
		require.NoError(t, err)
		p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Err() != nil })
		_, err = s.Poll()
		require.ErrorIs(t, err, sdr.ErrTooLong)
		require.ErrorIs(t, r.Err(), sdr.ErrAborted)
		require.NoError(t, r.Complete())
		p.until(units.Second, r.Done)
		require.Equal(t, make([]byte, 4*chunkBytes), dst.Bytes())
		if n%100 == 1 {
			e.exchange(int(n), 1)
		}
	}
}

// TestSplits sends messages with every split of the immediate's bits that may be of use.
func TestSplits(t *testing.T) {
	for _, bits := range [][3]uint8{{10, 18, 4}, {8, 22, 2}, {8, 16, 8}, {14, 18, 0}, {12, 18, 2}, {1, 23, 8}, {16, 8, 8}, {2, 26, 4}} {
		split := sdr.Split{SlotBits: bits[0], OffsetBits: bits[1], FragmentBits: bits[2]}
		t.Run(split.String(), func(t *testing.T) {
			cfg := small
			cfg.Split, cfg.MaxMessage = split, 128*units.KiB
			p := newPair(t, link(), cfg)
			src, dst := p.mr(0, 100_000, true), p.mr(1, 100_000, false)
			for n := range 3 * min(8, split.Slots()*4) {
				length := units.Bytes(1 + n*12_000%100_000)
				clear(dst.Bytes())
				var r sdr.RecvHandle
				p.until(units.Second, func() bool {
					var err error
					r, err = p.qp[1].PostRecv(dst, 0, 100_000)
					return err == nil
				})
				s, err := p.qp[0].PostSend(src, 0, length, sdr.SendOptions{Imm: 0xcafe0000 + uint32(n), HasImm: true})
				require.NoError(t, err)
				p.until(units.Second, func() bool {
					all := r.Bitmap().AllSet()
					imm, ok, _ := r.Imm()
					return all && ok && imm == 0xcafe0000+uint32(n)
				})
				require.True(t, bytes.Equal(src.Bytes()[:length], dst.Bytes()[:length]))
				require.NoError(t, r.Complete())
				p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Done() })
			}
		})
	}
}

// TestFullTable has 1024 messages in flight in each direction at once, and not one more.
func TestFullTable(t *testing.T) {
	cfg := small
	cfg.Split, cfg.MaxMessage = sdr.DefaultSplit, units.MiB
	p := newPair(t, link(), cfg)
	const n, size = 1024, 2500
	var src, dst [2]*sdr.MR
	var recvs [2][n]sdr.RecvHandle
	var sends [2][n]sdr.SendHandle
	for e := range 2 {
		src[e], dst[1-e] = p.mr(e, size+n, true), p.mr(1-e, n*size, false)
	}
	for e := range 2 {
		for i := range n {
			var err error
			recvs[e][i], err = p.qp[e].PostRecv(dst[e], units.Bytes(i)*size, size)
			require.NoError(t, err)
			sends[e][i], err = p.qp[e].PostSend(src[e], units.Bytes(i), size, sdr.SendOptions{})
			require.NoError(t, err)
		}
		_, err := p.qp[e].PostRecv(dst[e], 0, size)
		require.ErrorIs(t, err, sdr.ErrAgain)
		_, err = p.qp[e].PostSend(src[e], 0, size, sdr.SendOptions{})
		require.ErrorIs(t, err, sdr.ErrAgain)
	}
	for e := range 2 {
		for i, r := range recvs[e] {
			p.until(10*units.Second, func() bool { return r.Bitmap().AllSet() })
			require.True(t, bytes.Equal(src[1-e].Bytes()[i:i+size], dst[e].Bytes()[i*size:(i+1)*size]), "message %d to end %d", i, e)
			require.NoError(t, r.Complete())
		}
	}
	for e := range 2 {
		for i := range n {
			p.until(10*units.Second, func() bool { done, _ := sends[e][i].Poll(); return done && recvs[e][i].Done() })
		}
	}
}

// TestStreamAnyOrder sends ranges of a message to any offset, in any order and again: what was sent is in
// place, what wasn't is not, and the message is as long as the highest byte.
func TestStreamAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	p := newPair(t, link(), small)
	const packets, size = 200, 200*1024 - 77
	src, dst := p.mr(0, size, true), p.mr(1, size, false)
	for round := range 40 {
		clear(dst.Bytes())
		r, err := p.qp[1].PostRecv(dst, 0, size)
		require.NoError(t, err)
		s, err := p.qp[0].StartStream(src, 0, size, sdr.SendOptions{})
		require.NoError(t, err)
		var sent [packets]bool
		high := units.Bytes(0)
		for range 1 + rng.IntN(30) {
			first := rng.IntN(packets)
			n := 1 + rng.IntN(min(20, packets-first))
			end := min(units.Bytes(first+n)*1024, size)
			require.NoError(t, s.Send(units.Bytes(first)*1024, end-units.Bytes(first)*1024))
			for i := first; i < first+n; i++ {
				sent[i] = true
			}
			high = max(high, end)
			if rng.IntN(3) == 0 {
				p.run(units.Duration(rng.IntN(int(20 * ms))))
			}
		}
		require.NoError(t, s.End())
		p.until(units.Second, func() bool { done, err := s.Poll(); require.NoError(t, err); return done })
		p.run(30 * ms)
		got, known := r.Length()
		require.True(t, known)
		require.Equal(t, high, got, "seed %d, round %d", seed, round)
		m, err := r.Packets()
		require.NoError(t, err)
		for i := range sent[:m.Len()] {
			has, err := m.Has(i), m.Err()
			require.NoError(t, err)
			require.Equal(t, sent[i], has, "packet %d, seed %d, round %d", i, seed, round)
			from, to := i*1024, min((i+1)*1024, size)
			want := make([]byte, to-from)
			if sent[i] {
				copy(want, src.Bytes()[from:to])
			}
			require.True(t, bytes.Equal(want, dst.Bytes()[from:to]), "packet %d, seed %d, round %d", i, seed, round)
		}
		require.NoError(t, r.Complete())
		p.until(units.Second, r.Done)
	}
}

// TestLogger: what an operator should know goes to the endpoint's logger.
func TestLogger(t *testing.T) {
	var out bytes.Buffer
	net, err := sim.New(link())
	require.NoError(t, err)
	c, err := sdr.NewEndpoint(net.A(), sdr.EndpointConfig{Workers: sdr.Manual, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, err)
	q, err := c.NewQP(small)
	require.NoError(t, err)
	other, err := sdr.NewEndpoint(net.B(), sdr.EndpointConfig{Workers: sdr.Manual})
	require.NoError(t, err)
	peer, err := other.NewQP(small)
	require.NoError(t, err)
	addr, err := peer.Info().Addr()
	require.NoError(t, err)
	require.NoError(t, q.StartConnect(peer.Info())) // the peer never does
	for q.Err() == nil {
		net.Advance(max(net.Now(), min(c.Progress(net.Now()), net.Next())))
	}
	require.ErrorIs(t, q.Err(), sdr.ErrPeerDead)
	require.Contains(t, out.String(), `level=WARN msg="queue pair failed" qp="qp 0" peer=`+addr.String())
	require.NoError(t, c.Close())
	require.NoError(t, other.Close())
}
