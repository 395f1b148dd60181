// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestImmediateOrNone: a message's immediate arrives whatever its length, and one that has none can be
// distinguished from one whose immediate is 0.
func TestImmediateOrNone(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 20_000, true), p.mr(1, 20_000, false)
	for _, c := range []struct{ buffer, message units.Bytes }{
		{0, 0}, {1, 0}, {20_000, 0}, {1, 1}, {5000, 5000}, {5000, 4000}, {8192, 8192}, {20_000, 20_000}, {20_000, 19_999},
	} {
		for _, o := range []sdr.SendOptions{{}, {HasImm: true}, {HasImm: true, Imm: 0xfeedf00d}} {
			r, err := p.qp[1].PostRecv(dst, 0, c.buffer)
			require.NoError(t, err)
			s, err := p.qp[0].PostSend(src, 0, c.message, o)
			require.NoError(t, err)
			p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
			p.run(100 * ms)
			imm, ok, err := r.Imm()
			require.NoError(t, err)
			require.Equal(t, o, sdr.SendOptions{Imm: imm, HasImm: ok}, "%d bytes into a buffer of %d", c.message, c.buffer)
			require.NoError(t, r.Complete())
			_, ok, err = r.Imm()
			require.ErrorIs(t, err, sdr.ErrCompleted)
			require.False(t, ok)
			p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Done() })
		}
	}
}

// TestEmptyBuffer: nothing has arrived in a buffer without bytes before the sender says so, and it may be completed all the same.
func TestEmptyBuffer(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 1, true), p.mr(1, 1, false)
	for _, sent := range []bool{true, false} {
		r, err := p.qp[1].PostRecv(dst, 0, 0)
		require.NoError(t, err)
		p.run(100 * ms)
		require.False(t, r.Bitmap().AllSet())
		if sent {
			s, err := p.qp[0].PostSend(src, 0, 0, sdr.SendOptions{})
			require.NoError(t, err)
			p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
			require.NoError(t, r.Complete())
			p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Done() })
			continue
		}
		require.NoError(t, r.Complete())
		p.until(units.Second, r.Done)
	}
}

// TestReadOnlyMemory: memory that may not be written receives nothing.
func TestReadOnlyMemory(t *testing.T) {
	p := newPair(t, link(), small)
	m, err := p.ctx[0].RegisterMemory(make([]byte, 4096), 0)
	require.NoError(t, err)
	_, err = p.qp[0].PostRecv(m, 0, 4096)
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.ErrorContains(t, err, "AccessRemoteWrite")
	require.NoError(t, m.Close(), "nothing holds it")
}

// TestRegisterNothing: memory without a byte is an argument that is wrong, on every device.
func TestRegisterNothing(t *testing.T) {
	p := newPair(t, link(), small)
	_, err := p.ctx[0].RegisterMemory(nil, 0)
	require.ErrorIs(t, err, sdr.ErrArgument)
	for _, n := range []units.Bytes{0, -1} {
		_, err = p.ctx[0].RegisterSize(n, 0)
		require.ErrorIs(t, err, sdr.ErrArgument)
	}
}

// TestAddrOfNoInfo: what is no info fails as all calls do.
func TestAddrOfNoInfo(t *testing.T) {
	_, err := sdr.Info("hello").Addr()
	require.ErrorIs(t, err, sdr.ErrMismatch)
	var e *sdr.OpError
	require.ErrorAs(t, err, &e)
}

// TestWaitForRefusedSend: Wait returns when the memory is the user's again, as Poll does, also when the peer's buffer is known to be too
// short already when the message is posted.
func TestWaitForRefusedSend(t *testing.T) {
	s := newSockets(t, 1)
	q := s.connect(t, sdr.QPConfig{})
	dst := s.mr(t, 1, 4096)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 50 {
		r, err := q[1].PostRecv(dst, 0, 100)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, granted := q[0].Frontier(); return granted > r.Seq() }, 10*time.Second, time.Millisecond)
		buf, err := sdr.AllocBuffer(4096)
		require.NoError(t, err)
		src, err := s.ctx[0].RegisterMemory(buf, 0)
		require.NoError(t, err)
		h, err := q[0].PostSend(src, 0, 200, sdr.SendOptions{})
		require.NoError(t, err)
		require.ErrorIs(t, h.Wait(ctx), sdr.ErrTooLong)
		require.NoError(t, src.Close())
		require.NoError(t, sdr.FreeBuffer(buf))
		require.NoError(t, r.Complete())
		require.NoError(t, r.Wait(ctx))
	}
}

// TestTooLongIsNoViolation: a send that is too long for the peer's buffer is a mistake of two honest sides.
func TestTooLongIsNoViolation(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 2000, true), p.mr(1, 2000, false)
	r, err := p.qp[1].PostRecv(dst, 0, 1000)
	require.NoError(t, err)
	s, err := p.qp[0].PostSend(src, 0, 2000, sdr.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Err() != nil })
	p.run(100 * ms)
	_, err = s.Poll()
	require.ErrorIs(t, err, sdr.ErrTooLong)
	require.ErrorIs(t, r.Err(), sdr.ErrAborted)
	require.ErrorIs(t, r.Err(), sdr.ErrTooLong)
	require.ErrorContains(t, r.Err(), "1000")
	all, err := r.Bitmap().AllSet(), r.Bitmap().Err()
	require.NoError(t, err)
	require.False(t, all, "nothing of it has arrived")
	for i := range 2 {
		require.Zero(t, p.qp[i].Stats().Control.Violations, "end %d", i)
	}
}

// TestMemoryOfAnotherDevice: memory that was registered on another device is refused, because its key may name other memory on this one.
func TestMemoryOfAnotherDevice(t *testing.T) {
	p := newPair(t, link(), small)
	here, there := p.mr(0, 4096, true), p.mr(1, 4096, true)
	_, err := p.qp[0].PostSend(there, 0, 4096, sdr.SendOptions{})
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.ErrorContains(t, err, "another device")
	_, err = p.qp[0].StartStream(there, 0, 4096, sdr.SendOptions{})
	require.ErrorIs(t, err, sdr.ErrArgument)
	_, err = p.qp[0].PostRecv(there, 0, 4096)
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.NoError(t, there.Close(), "nothing holds it")

	// Another Endpoint on the same device may have registered it.
	second, err := sdr.NewEndpoint(p.ctx[0].Device(), sdr.EndpointConfig{Workers: sdr.Manual})
	require.NoError(t, err)
	q, err := second.NewQP(small)
	require.NoError(t, err)
	_, err = q.PostSend(here, 0, 4096, sdr.SendOptions{})
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// TestLengthInOneWord: whoever sees that the length is known sees the length, not the buffer's.
func TestLengthInOneWord(t *testing.T) {
	s := newSockets(t, 1)
	q := s.connect(t, sdr.QPConfig{MTU: 256, Chunk: 256})
	src, dst := s.mr(t, 0, 100), s.mr(t, 1, units.MiB)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for range 300 {
		r, err := q[1].PostRecv(dst, 0, dst.Len())
		require.NoError(t, err)
		_, err = q[0].PostSend(src, 0, 100, sdr.SendOptions{})
		require.NoError(t, err)
		for known := false; !known; runtime.Gosched() { // where there is one processor, the worker needs it
			require.NoError(t, ctx.Err())
			var n units.Bytes
			if n, known = r.Length(); known {
				require.EqualValues(t, 100, n)
			} else {
				require.Equal(t, dst.Len(), n)
			}
		}
		finish(t, r)
	}
}

// TestCompletedBeforeItsGrantIsNoViolation: a receive that is completed when its clear-to-send has been lost is one of two honest sides.
func TestCompletedBeforeItsGrantIsNoViolation(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 1000, true), p.mr(1, 1000, false)
	lost := false
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind == backend.KindDatagram && !lost && contains(i.Data, wire.TypeCTS) {
			lost = true
			return sim.Drop
		}
		return sim.Deliver
	})
	r, err := p.qp[1].PostRecv(dst, 0, 1000)
	require.NoError(t, err)
	s, err := p.qp[0].PostSend(src, 0, 1000, sdr.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return lost })
	require.NoError(t, r.Complete())
	p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Done() })
	for i := range 2 {
		require.Zero(t, p.qp[i].Stats().Control.Violations, "end %d", i)
	}
}

// TestKeepsToThePeersBound: a receiver whose clear-to-send for one message is lost time and again, and who gives that and others up, posts no
// more than the sender accepts.
func TestKeepsToThePeersBound(t *testing.T) {
	p := newPair(t, link(), small)
	dst := p.mr(1, 1000, false)
	seq := uint64(0) // of the message whose clear-to-send is lost
	dark := true
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind == backend.KindDatagram && dark && grants(i.Data, seq) {
			return sim.Drop
		}
		return sim.Deliver
	})
	posted := 0
	for p.net.Now() < units.Instant(2*units.Second) {
		r, err := p.qp[1].PostRecv(dst, 0, 1000)
		if err == nil {
			posted++
			seq = min(max(seq, 1), r.Seq())
			require.NoError(t, r.Complete())
		}
		p.run(ms)
	}
	require.Zero(t, p.qp[0].Stats().Control.Violations)
	require.Equal(t, 32, posted)
	dark = false
	p.until(3*units.Second, func() bool { _, err := p.qp[1].PostRecv(dst, 0, 1000); return err == nil })
}

// grants reports whether a control datagram has the clear-to-send for a message.
func grants(b []byte, seq uint64) bool {
	_, rest, err := wire.ParseHeader(b)
	r := wire.NewReader(rest)
	for f := (wire.Frame{}); err == nil && r.Next(&f); {
		if f.Type == wire.TypeCTS && f.ID == seq {
			return true
		}
	}
	return false
}
