// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// contains reports whether a control datagram has a frame of type t.
func contains(b []byte, t wire.Type) bool {
	_, rest, err := wire.ParseHeader(b)
	if err != nil {
		return false
	}
	r := wire.NewReader(rest)
	var f wire.Frame
	for r.Next(&f) {
		if f.Type == t {
			return true
		}
	}
	return false
}

// TestEachFrameLost drops, for each type of frame, the first few datagrams that carry it: all messages arrive all the same, only
// later.
func TestEachFrameLost(t *testing.T) {
	for _, lost := range []wire.Type{wire.TypeCTS, wire.TypeStart, wire.TypeEnd, wire.TypeAbort, wire.TypeCompleted, wire.TypeAck, wire.TypePing, wire.TypePong} {
		for _, count := range []int{1, 3, 8} {
			t.Run(fmt.Sprintf("%v %d times", lost, count), func(t *testing.T) {
				p := newPair(t, link(), small)
				left := count
				p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
					if i.Kind == backend.KindDatagram && left > 0 && contains(i.Data, lost) {
						left--
						return sim.Drop
					}
					return sim.Deliver
				})
				exchange(t, p)
				if lost != wire.TypeAbort && lost != wire.TypePing && lost != wire.TypePong {
					require.Zero(t, left, "the frames were never sent")
				}
			})
		}
	}
}

// exchange sends messages of many lengths into longer buffers, and one that is
// too long, and checks every byte.
func exchange(t *testing.T, p *pair) {
	const buffer = 3 * 4096
	var recvs []sdr.RecvHandle
	var sends []sdr.SendHandle
	lengths := []units.Bytes{0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 8000, buffer}
	src, dst := p.mr(0, buffer, true), p.mr(1, buffer*units.Bytes(len(lengths)), false)
	for i, n := range lengths {
		r, err := p.qp[1].PostRecv(dst, units.Bytes(i)*buffer, buffer)
		require.NoError(t, err)
		recvs = append(recvs, r)
		s, err := p.qp[0].PostSend(src, 0, n, sdr.SendOptions{Imm: uint32(n), HasImm: true})
		require.NoError(t, err)
		sends = append(sends, s)
	}
	for i, n := range lengths {
		p.until(30*units.Second, func() bool { return recvs[i].Bitmap().AllSet() })
		got, known := recvs[i].Length()
		require.Equal(t, n, got)
		require.True(t, known || n == buffer)
		p.until(30*units.Second, func() bool {
			imm, ok, _ := recvs[i].Imm()
			return ok && imm == uint32(n)
		})
		at := units.Bytes(i) * buffer
		require.Equal(t, src.Bytes()[:n], dst.Bytes()[at:at+n])
		require.Equal(t, make([]byte, buffer-n), dst.Bytes()[at+n:at+buffer], "beyond the message")
		require.NoError(t, recvs[i].Complete())
		p.until(30*units.Second, recvs[i].Done)
		p.until(30*units.Second, func() bool { done, err := sends[i].Poll(); require.NoError(t, err); return done })
	}
	p.tooLong(t)
}

// tooLong sends 2000 bytes into a buffer of 1000: both sides are notified.
func (p *pair) tooLong(t *testing.T) {
	src, dst := p.mr(0, 2000, true), p.mr(1, 1000, false)
	r, err := p.qp[1].PostRecv(dst, 0, 1000)
	require.NoError(t, err)
	s, err := p.qp[0].PostSend(src, 0, 2000, sdr.SendOptions{})
	require.NoError(t, err)
	p.until(30*units.Second, func() bool { done, _ := s.Poll(); return done && r.Err() != nil })
	_, err = s.Poll()
	require.ErrorIs(t, err, sdr.ErrTooLong)
	require.ErrorContains(t, err, "2000")
	require.ErrorContains(t, err, "1000")
	require.ErrorIs(t, r.Err(), sdr.ErrAborted)
	require.NoError(t, r.Complete())
	p.until(30*units.Second, r.Done)
}

func TestEarlyCompletion(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 100_000, true), p.mr(1, 100_000, false)
	r, err := p.qp[1].PostRecv(dst, 0, 100_000)
	require.NoError(t, err)
	s, err := p.qp[0].StartStream(src, 0, 100_000, sdr.SendOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Send(4096, 4096))
	require.NoError(t, s.Send(0, 1024))
	p.run(50 * ms)
	has, err := r.Bitmap().Has(1), r.Bitmap().Err()
	require.NoError(t, err)
	require.True(t, has)
	has, err = r.Bitmap().Has(0), r.Bitmap().Err()
	require.NoError(t, err)
	require.False(t, has)
	require.Equal(t, src.Bytes()[4096:8192], dst.Bytes()[4096:8192])

	require.NoError(t, r.Complete())
	p.until(units.Second, r.Done)
	p.run(50 * ms)
	require.ErrorIs(t, s.Send(8192, 4096), sdr.ErrCompleted)
	require.NoError(t, s.End())
	p.until(units.Second, func() bool { done, err := s.Poll(); require.NoError(t, err); return done })
}

// A message that is shorter than its buffer has fewer chunks once its length is known, and who has asked for Len before may ask for others.
func TestChunksBeyondAMessage(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 5000, true), p.mr(1, 1_000_000, false)
	r, err := p.qp[1].PostRecv(dst, 0, 1_000_000)
	require.NoError(t, err)
	m := r.Bitmap()
	before := m.Len()
	_, err = p.qp[0].PostSend(src, 0, 5000, sdr.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, m.AllSet)
	require.Less(t, m.Len(), before)
	for _, i := range []int{m.Len(), before - 1, before, 1 << 40} {
		offset, n := m.Range(i)
		require.Equal(t, [2]units.Bytes{5000, 0}, [2]units.Bytes{offset, n})
		require.False(t, m.Has(i))
		require.Equal(t, m.Len(), m.NextMissing(i))
	}
	for _, w := range []int{-1, 1, before, 1 << 40} {
		require.Zero(t, m.Word(w))
	}
	require.Equal(t, uint64(1)<<m.Len()-1, m.Word(0))
	require.NoError(t, m.Err())
}

func TestStreamRefusesWhatDoesNotFit(t *testing.T) {
	p := newPair(t, link(), small)
	src := p.mr(0, 10_000, true)
	s, err := p.qp[0].StartStream(src, 0, 10_000, sdr.SendOptions{})
	require.NoError(t, err)
	for _, r := range [][2]units.Bytes{{-1024, 1024}, {0, 0}, {0, 20_000}, {100, 1024}, {0, 1000}, {9216, 1024}} {
		require.ErrorIs(t, s.Send(r[0], r[1]), sdr.ErrArgument, r)
	}
	require.NoError(t, s.Send(9216, 784))
	require.NoError(t, s.End())
	require.ErrorIs(t, s.Send(0, 1024), sdr.ErrClosed)
	_, err = p.qp[0].PostSend(src, 0, 2*units.MiB, sdr.SendOptions{})
	require.ErrorIs(t, err, sdr.ErrTooLong)
	_, err = p.qp[0].PostSend(src, 5000, 6000, sdr.SendOptions{})
	require.ErrorIs(t, err, sdr.ErrArgument)
}

func TestConnectFindsMismatch(t *testing.T) {
	p := newUnconnected(t, link(), small)
	other := small
	other.Channels, other.Chunk = 4, 1024
	q, err := p.ctx[1].NewQP(other)
	require.NoError(t, err)
	err = p.qp[0].StartConnect(q.Info())
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.ErrorContains(t, err, "channels is 2 here and 4 at the peer")
	for _, garbage := range []sdr.Info{nil, sdr.Info("hello"), q.Info()[:50], append(q.Info(), 0)} {
		require.ErrorIs(t, p.qp[0].StartConnect(garbage), sdr.ErrMismatch)
	}
}

// TestConnectFindsSmallMTU lets small packets pass and no large one.
func TestConnectFindsSmallMTU(t *testing.T) {
	p := failToConnect(t, func(sim.PacketInfo) bool { return true })
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrMismatch)
	require.ErrorContains(t, p.qp[0].Err(), "does not carry MTU 1024")
}

// failToConnect has two ends connect over a network that loses those packets of full size that tooLong names.
func failToConnect(t *testing.T, tooLong func(sim.PacketInfo) bool) *pair {
	cfg := small
	cfg.ConnectTimeout = 300 * ms
	p := newUnconnected(t, link(), cfg)
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Length >= 1024 && tooLong(i) {
			return sim.Drop
		}
		return sim.Deliver
	})
	for i := range 2 {
		require.NoError(t, p.qp[i].StartConnect(p.qp[1-i].Info()))
	}
	p.until(units.Second, func() bool { return p.qp[0].Err() != nil && p.qp[1].Err() != nil })
	return p
}

// TestShortSilence: an idle peer that lives isn't thought dead, however short a silence counts as death.
func TestShortSilence(t *testing.T) {
	for _, silence := range []units.Duration{10 * ms, 100 * ms, 300 * ms} {
		p := newPair(t, sim.Config{Seed: 1, Link: sim.Link{Delay: ms / 2}}, sdr.QPConfig{MTU: 4096, Silence: silence})
		_, err := p.qp[0].PostRecv(p.mr(0, 4096, false), 0, 4096)
		require.NoError(t, err)
		p.run(3 * units.Second)
		require.NoError(t, p.qp[0].Err(), "%v", silence)
	}
}

// TestConnectHearsNoAnswer: an end that got the peer's packet of full size doesn't blame the MTU of the way on which that came.
func TestConnectHearsNoAnswer(t *testing.T) {
	p := failToConnect(t, func(i sim.PacketInfo) bool { return i.Direction == sim.AtoB })
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrPeerDead)
	require.ErrorContains(t, p.qp[0].Err(), "no word that ours did (is either host overloaded")
	require.ErrorContains(t, p.qp[1].Err(), "does not carry MTU 1024")
}

func TestSilentPeer(t *testing.T) {
	cfg := small
	cfg.ConnectTimeout = 300 * ms
	p := newUnconnected(t, link(), cfg)
	require.NoError(t, p.qp[0].StartConnect(p.qp[1].Info()))
	p.until(units.Second, func() bool { return p.qp[0].Err() != nil })
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrPeerDead)
	require.ErrorContains(t, p.qp[0].Err(), "nothing arrived from the peer at "+addrOf(t, p.qp[1])+":4791 within")
}

// TestErrorsNameThePeer: an end that has many peers says which one has died.
func TestErrorsNameThePeer(t *testing.T) {
	p := newUnconnected(t, link(), sdr.QPConfig{MTU: 1024, Silence: 500 * ms})
	p.connect()
	dst := p.mr(0, 4096, false)
	_, err := p.qp[0].PostRecv(dst, 0, dst.Len())
	require.NoError(t, err)
	require.NoError(t, p.ctx[1].Close())
	p.until(2*units.Second, func() bool { return p.qp[0].Err() != nil })
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrPeerDead)
	require.ErrorContains(t, p.qp[0].Err(), "nothing arrived from the peer at "+addrOf(t, p.qp[1])+":4791 for 500 ms")
}

// addrOf is where q's device is, as errors of its peer say it.
func addrOf(t *testing.T, q *sdr.QP) string {
	a, err := q.Info().Addr()
	require.NoError(t, err)
	return a.String()
}

// TestStandstill: an end that stood still for longer than Silence, as a process that was stopped, doesn't take its peer for dead: what that has
// said meanwhile lies behind more data than a worker takes at once. A peer that is dead is found out although this end is late again.
func TestStandstill(t *testing.T) {
	p := newUnconnected(t, link(), sdr.QPConfig{MTU: 1024, Silence: 500 * ms})
	var err error
	p.qp[1], err = p.ctx[1].NewQP(sdr.QPConfig{MTU: 1024, Silence: 10 * units.Second})
	require.NoError(t, err)
	p.connect()
	src, dst := p.mr(1, 4*units.MiB, true), p.mr(0, 4*units.MiB, false)
	r, err := p.qp[0].PostRecv(dst, 0, dst.Len())
	require.NoError(t, err)
	_, err = p.qp[1].PostSend(src, 0, src.Len(), sdr.SendOptions{})
	require.NoError(t, err)
	p.until(units.Second, func() bool { return p.qp[1].Stats().InFlight > 0 })
	alone := func(d units.Duration) { // side 1 is
		for end := p.net.Now().Add(d); p.net.Now() < end; {
			next := p.ctx[1].Progress(p.net.Now())
			p.net.Advance(min(max(next, p.net.Now()), end))
		}
	}
	only := func(data bool) func(sim.PacketInfo) sim.Verdict {
		return func(i sim.PacketInfo) sim.Verdict {
			if data && i.Length == 1024 {
				return sim.Deliver
			}
			return sim.Drop
		}
	}
	p.net.SetFilter(only(true))
	alone(300 * ms)
	p.net.SetFilter(nil)
	alone(400 * ms)
	require.False(t, r.Bitmap().AllSet())
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	p.run(units.Second)
	require.NoError(t, p.qp[0].Err())

	p.net.SetFilter(only(false))
	p.run(20 * ms)
	for range 2 { // it comes too late each time
		require.NoError(t, p.qp[0].Err())
		p.net.Advance(p.net.Now().Add(700 * ms))
		p.ctx[0].Progress(p.net.Now())
	}
	require.ErrorIs(t, p.qp[0].Err(), sdr.ErrPeerDead)
	require.ErrorContains(t, p.qp[0].Err(), "allow for longer silence")
}

// refusingDevice is a device of a host that refuses to send packets, and says when it did so last.
type refusingDevice struct {
	backend.Device
	last *units.Instant
}

func (d refusingDevice) Stats() backend.Stats {
	s := d.Device.Stats()
	s.Refused, s.RefusedErr = *d.last, syscall.EPERM
	return s
}

// TestRefusedByThisHost: an error that says that nothing arrives tells that this host itself refused to send, if it has done so
// since something arrived.
func TestRefusedByThisHost(t *testing.T) {
	const told = "this host refuses to send packets: operation not permitted"
	cfg := small
	cfg.ConnectTimeout, cfg.Silence = 300*ms, 300*ms
	lost := func(sim.PacketInfo) sim.Verdict { return sim.Drop }
	for _, refusedAfter := range []units.Duration{-1, 100 * ms} { // of the moment when the network fails
		var last units.Instant
		wrap := func(_ int, d backend.Device) backend.Device { return refusingDevice{d, &last} }
		check := func(p *pair) {
			p.until(units.Second, func() bool { return p.qp[0].Err() != nil })
			require.ErrorIs(t, p.qp[0].Err(), sdr.ErrPeerDead)
			if refusedAfter > 0 {
				require.ErrorContains(t, p.qp[0].Err(), told)
				require.ErrorContains(t, p.qp[0].Err(), "firewall")
			} else {
				require.NotContains(t, p.qp[0].Err().Error(), "refuses")
			}
		}

		p := newWrapped(t, link(), cfg, wrap)
		last = p.net.Now().Add(refusedAfter)
		p.net.SetFilter(lost)
		require.NoError(t, p.qp[0].StartConnect(p.qp[1].Info()))
		check(p)

		p = newWrapped(t, link(), cfg, wrap)
		last = p.net.Now()
		p.connect()
		p.net.SetFilter(lost)
		mr, err := p.ctx[0].RegisterMemory(make([]byte, 4096), sdr.AccessRemoteWrite)
		require.NoError(t, err)
		_, err = p.qp[0].PostRecv(mr, 0, 1024)
		require.NoError(t, err)
		if refusedAfter > 0 {
			last = p.net.Now().Add(refusedAfter)
		}
		check(p)
	}
}

// TestSequencesGoOn: messages arrive on a bad link while their sequence passes 2^32, what addresses have room for, and 2^63.
func TestSequencesGoOn(t *testing.T) {
	const size, messages = 20 * 1024, 40
	for _, short := range []bool{false, true} {
		for _, last := range []uint64{1 << 32, 1 << 44, 1 << 63} { // 2^44 messages of 1 MiB have addresses
			bad, cfg := link(), small
			bad.NoFullSequence, cfg.MSL = short, 20*ms
			bad.Link.Loss = sim.Loss{Drop: 0.05}
			bad.Link.Reorder, bad.Link.ReorderDelay, bad.Link.Duplicate = 0.05, 2*ms, 0.05
			p := newPair(t, bad, cfg)
			p.run(100 * ms)
			for _, q := range p.qp {
				sdr.JumpTo(q, last-messages/2)
			}
			src, dst := p.mr(0, size, true), p.mr(1, size, false)
			for i := range messages {
				var r sdr.RecvHandle
				p.until(units.Second, func() (ok bool) {
					var err error
					r, err = p.qp[1].PostRecv(dst, 0, size)
					return err == nil
				})
				s, err := p.qp[0].StartStream(src, 0, size, sdr.SendOptions{})
				require.NoError(t, err)
				for again := 0; !r.Bitmap().AllSet(); again++ {
					require.Less(t, again, 20, "message %d", i)
					require.NoError(t, s.Send(0, size))
					p.run(30 * ms)
				}
				require.Equal(t, src.Bytes(), dst.Bytes(), "message %d", i)
				require.NoError(t, s.End())
				require.NoError(t, r.Complete())
				p.until(units.Second, func() bool { done, _ := s.Poll(); return done && r.Done() })
				clear(dst.Bytes())
			}
		}
	}
}
