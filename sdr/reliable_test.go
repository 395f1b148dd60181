// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A talker is a driver that sends frames that must arrive, and keeps those that have.
type talker struct {
	toSend   [][]byte
	refused  int
	err      error
	received [][]byte
	do       func(*sdr.Port)
}

func (d *talker) Progress(p *sdr.Port) units.Instant {
	for _, e := range p.Events {
		if e.Kind == sdr.EventReliable {
			d.received = append(d.received, bytes.Clone(e.Bytes))
		}
	}
	if d.do != nil {
		d.do(p)
		d.do = nil
	}
	for len(d.toSend) > 0 {
		err := p.SendReliable(uint64(len(d.toSend)%3), len(d.toSend)%2 == 0, d.toSend[0])
		if errors.Is(err, sdr.ErrAgain) {
			d.refused++
			break
		}
		if d.err = err; err != nil {
			break
		}
		d.toSend = d.toSend[1:]
	}
	return units.Never
}

func (d *talker) Failed(error) {}

// newTalkers connects two queue pairs whose drivers talk.
func newTalkers(t *testing.T, seed uint64) (*hostile, [2]*talker) {
	sc := link()
	sc.Seed = seed
	p := newUnconnected(t, sc, small)
	d := [2]*talker{{}, {}}
	cfg := small
	cfg.MTU = 4096
	p.drive(cfg, d[0], d[1])
	return &hostile{pair: p}, d
}

// Frames that must arrive do, each once and in order, whatever the network does to datagrams; the sender keeps no more
// than the bound, and is refused beyond it.
func TestReliableFrames(t *testing.T) {
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 1))
	h, d := newTalkers(t, seed)
	h.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind != backend.KindDatagram {
			return sim.Deliver
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
			return sim.Drop
		case 3:
			return sim.Duplicate
		case 4:
			return sim.Hold(units.Duration(rng.Int64N(int64(20 * ms))))
		}
		return sim.Deliver
	})
	var want [2][][]byte
	for side := range 2 {
		for n := range 300 {
			b := binary.AppendUvarint(nil, uint64(n))
			b = append(b, make([]byte, rng.IntN(3000))...)
			want[1-side] = append(want[1-side], b)
		}
		d[side].toSend = want[1-side]
		h.qp[side].Kick()
	}
	h.until(300*units.Second, func() bool {
		for side, q := range h.qp {
			n := q.Held()
			require.LessOrEqual(t, n.Reliable, sdr.MaxReliable)
			require.LessOrEqual(t, n.ReliableBytes, sdr.MaxReliableBytes)
			require.NoError(t, d[side].err)
		}
		return len(d[0].received) >= 300 && len(d[1].received) >= 300 && h.qp[0].Held().Reliable+h.qp[1].Held().Reliable == 0
	})
	for side := range 2 {
		require.True(t, slices.EqualFunc(want[side], d[side].received, bytes.Equal), "each once, in order")
		require.Positive(t, d[side].refused, "the bound was reached")
		require.Positive(t, h.qp[side].Stats().Control.Duplicates)
		require.Zero(t, h.qp[side].Stats().Control.Violations)
	}
}

// A frame to the receiving half of a transfer doesn't overtake its START; one to the sending half, or of
// another transfer, doesn't wait for it.
func TestReliableFramesFollowStart(t *testing.T) {
	h, d := newTalkers(t, 1)
	lost := true
	h.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if lost && i.Kind == backend.KindDatagram && contains(i.Data, wire.TypeStart) {
			return sim.Drop
		}
		return sim.Deliver
	})
	d[0].do = func(p *sdr.Port) {
		p.Announce(7, 100, 0, false, nil)
		require.ErrorIs(t, p.SendReliable(7, false, []byte("rows")), sdr.ErrAgain)
		require.NoError(t, p.SendReliable(7, true, []byte("to the sender")))
		require.NoError(t, p.SendReliable(8, false, []byte("another")))
		require.ErrorIs(t, p.SendReliable(8, false, make([]byte, p.MaxScheme()+1)), sdr.ErrTooLong)
		require.NoError(t, p.SendReliable(8, false, make([]byte, p.MaxScheme())))
	}
	h.qp[0].Kick()
	h.rest(300 * ms)
	require.Len(t, d[1].received, 0, "the datagrams that carry them have START in them, too")
	lost = false
	h.until(10*units.Second, func() bool { return len(d[1].received) == 3 && h.qp[0].Held().Unacked == 0 })
	d[0].do = func(p *sdr.Port) { require.NoError(t, p.SendReliable(7, false, []byte("rows"))) }
	h.qp[0].Kick()
	h.until(units.Second, func() bool { return len(d[1].received) == 4 })
	require.Equal(t, "rows", string(d[1].received[3]))
}

// A peer that repeats, skips or invents numbers is not believed, and counted.
func TestHostileReliableFrames(t *testing.T) {
	h, d := newTalkers(t, 1)
	receive := func(id uint64) {
		f := wire.Frame{Type: wire.TypeReliable, ID: id, Transfer: 5, Bytes: []byte{byte(id)}}
		h.forge(1, f.Append(nil))
		h.rest(ms)
	}
	receive(1) // its predecessor is missing
	require.Empty(t, d[1].received)
	receive(0)
	receive(0)
	receive(1)
	receive(0)
	require.Equal(t, [][]byte{{0}, {1}}, d[1].received)
	c := h.qp[1].Stats().Control
	require.Equal(t, uint64(2), c.Duplicates)
	require.Zero(t, c.Violations)
	receive(2 + sdr.MaxReliable - 1)
	require.Zero(t, h.qp[1].Stats().Control.Violations, "the peer may have sent as many")
	for n, id := range []uint64{2 + sdr.MaxReliable, 1 << 40, 1<<64 - 1} {
		receive(id)
		require.Equal(t, uint64(n+1), h.qp[1].Stats().Control.Violations)
	}
	require.Len(t, d[1].received, 2)
}

// A peer that acknowledges nothing makes us keep 64 small frames, or 64 KiB of large ones, and no more.
func TestReliableFramesAreBounded(t *testing.T) {
	for _, c := range []struct{ size, kept int }{{100, 64}, {3000, 65536 / 3000}} {
		h, d := newTalkers(t, 1)
		h.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
			if i.Kind == backend.KindDatagram && i.Direction == sim.BtoA {
				return sim.Drop
			}
			return sim.Deliver
		})
		for range 1000 {
			d[0].toSend = append(d[0].toSend, make([]byte, c.size))
		}
		h.qp[0].Kick()
		h.rest(units.Second)
		held := h.qp[0].Held()
		require.Equal(t, c.kept, held.Reliable, "of %d bytes each", c.size)
		require.Equal(t, c.kept*c.size, held.ReliableBytes)
		require.Equal(t, 1000-c.kept, len(d[0].toSend))
		require.Positive(t, d[0].refused)
		require.NoError(t, d[0].err)
	}
}

// A frame that finds the driver's queue full is not acknowledged, so it comes again.
func TestReliableFrameIntoFullQueue(t *testing.T) {
	h, d := newTalkers(t, 1)
	var flood []byte
	f := wire.Frame{Type: wire.TypeScheme, Bytes: make([]byte, 3000)}
	for range sdr.MaxArena/3000 + 1 {
		flood = f.Append(flood)
	}
	first := wire.Frame{Type: wire.TypeReliable, Bytes: make([]byte, 3000)}
	h.forge(1, first.Append(flood))
	h.rest(ms)
	require.Empty(t, d[1].received)
	h.forge(1, first.Append(nil))
	h.rest(ms)
	require.Len(t, d[1].received, 1)
	require.Zero(t, h.qp[1].Stats().Control.Duplicates)
}
