// SPDX-License-Identifier: Apache-2.0

package sdrtest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sides is a pair of sdr queue pairs on the devices, driven by one goroutine.
type sides struct {
	testing.TB
	pair *backendtest.Pair
	mtu  units.Bytes
	rec  [2]*recorder
	ep   [2]*sdr.Endpoint
	qp   [2]*sdr.QP
	mr   [2]*sdr.MR // what each side sends from
}

const sourceSize = 256 * units.KiB

func newSides(t testing.TB, mk backendtest.Maker, cfg sdr.QPConfig) *sides {
	t.Helper()
	p := mk.Pair(t, backendtest.Faults{})
	s := &sides{TB: t, pair: p, mtu: p.MTU()}
	s.rec = [2]*recorder{{Device: p.A}, {Device: p.B}}
	cfg.MTU = s.mtu
	cfg.MSL = 20*units.Millisecond + 2*p.Settle
	var err error
	for i, d := range s.rec {
		s.ep[i], err = sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: sdr.Manual, Rand: rand.NewChaCha8([32]byte{byte(i)})})
		require.NoError(t, err, "NewEndpoint")
		s.qp[i], err = s.ep[i].NewQP(cfg)
		require.NoError(t, err, "NewQP")
		src := make([]byte, sourceSize)
		rng := newRand(uint64(i))
		for k := range src {
			src[k] = byte(rng.Uint32())
		}
		s.mr[i], err = s.ep[i].RegisterMemory(src, 0)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, e := range s.ep {
			if e == nil {
				continue
			}
			if err := e.Close(); err != nil {
				t.Errorf("close endpoint: %v", err)
			}
		}
	})
	for i := range 2 {
		require.NoError(t, s.qp[i].StartConnect(s.qp[1-i].Info()), "StartConnect")
	}
	s.until("connected", func() bool {
		a, errA := s.qp[0].Connected()
		b, errB := s.qp[1].Connected()
		require.NoError(t, errors.Join(errA, errB))
		return a && b
	})
	return s
}

// lose reports whether a packet of a message may fail to arrive.
func (s *sides) lose() bool { return s.pair.Faults.Lose() && !s.pair.A.Caps().Reliable }

// step runs both sides once and lets time pass.
func (s *sides) step(limit units.Instant) {
	now := s.pair.A.Now()
	next := min(s.ep[0].Progress(now), s.ep[1].Progress(now))
	if s.pair.Advance != nil {
		s.pair.Advance(min(max(min(next, s.pair.Next()), now), limit))
		return
	}
	if next > now {
		runtime.Gosched()
	}
}

// until runs both sides until cond holds; it fails after Pair.Timeout of the devices' time.
func (s *sides) until(what string, cond func() bool) {
	s.Helper()
	limit := s.pair.A.Now().Add(s.pair.Timeout)
	for rounds := 0; !cond(); rounds++ {
		if s.pair.A.Now() >= limit || s.pair.Advance != nil && rounds > 10_000_000 {
			s.Fatalf("waited in vain: %s", what)
		}
		s.step(limit)
	}
}

// run lets what is in flight arrive.
func (s *sides) run() {
	d := 2*s.pair.Settle + 5*units.Millisecond
	limit := s.pair.A.Now().Add(d)
	for s.pair.A.Now() < limit {
		s.step(limit)
	}
}

// A buffer is receive memory with canaries around it.
type buffer struct {
	mr   *sdr.MR
	mem  []byte
	want []byte
}

const canary = units.Bytes(512)

func (s *sides) buffer(side int, n units.Bytes) *buffer {
	b := &buffer{mem: make([]byte, n+2*canary)}
	for i := range b.mem {
		b.mem[i] = 0xc5 ^ byte(i*7)
	}
	b.want = bytes.Clone(b.mem)
	var err error
	b.mr, err = s.ep[side].RegisterMemory(b.mem, sdr.AccessRemoteWrite)
	require.NoError(s, err)
	return b
}

func (b *buffer) check(t testing.TB, what string) {
	t.Helper()
	if !bytes.Equal(b.mem, b.want) {
		for i := range b.mem {
			if b.mem[i] != b.want[i] {
				t.Fatalf("%s: byte %d of a buffer of %d is wrong", what, i-int(canary), len(b.mem)-2*int(canary))
			}
		}
	}
}

// recv posts a receive on a side, when its slot is free.
func (s *sides) recv(side int, b *buffer, n units.Bytes) (h sdr.RecvHandle) {
	s.Helper()
	s.until("room for a receive", func() bool {
		var err error
		if h, err = s.qp[side].PostRecv(b.mr, canary, n); !errors.Is(err, sdr.ErrAgain) {
			require.NoError(s, err, "PostRecv")
			return true
		}
		return false
	})
	return h
}

// stream starts to send n bytes from off of a side's source.
func (s *sides) stream(side int, off, n units.Bytes, o sdr.SendOptions) (st sdr.SendStream) {
	s.Helper()
	s.until("room for a send", func() bool {
		var err error
		if st, err = s.qp[side].StartStream(s.mr[side], off, n, o); !errors.Is(err, sdr.ErrAgain) {
			require.NoError(s, err, "StartStream")
			return true
		}
		return false
	})
	if n > 0 {
		require.NoError(s, st.Send(0, n))
	}
	return st
}

// arrive runs until all of a message is in place; packets that the network loses are sent again. One without bytes is in place when
// its end has arrived.
func (s *sides) arrive(st sdr.SendStream, h sdr.RecvHandle, n units.Bytes) {
	s.Helper()
	if n == 0 {
		return
	}
	all := func() bool { ok, err := h.Bitmap().AllSet(), h.Bitmap().Err(); require.NoError(s, err); return ok }
	if !s.lose() {
		s.until("the message", all)
		return
	}
	for deadline := time.Now().Add(s.pair.Timeout); !all(); {
		s.run()
		if time.Now().After(deadline) {
			s.Fatal("waited in vain: the message, with all that was lost sent again")
		}
		m := h.Bitmap()
		for c := m.NextMissing(0); c < m.Len(); c = m.NextMissing(c + 1) {
			require.NoError(s, m.Err())
			off, length := m.Range(c)
			require.NoError(s, st.Send(off, min(length, n-off)))
		}
	}
}

// finish ends a message at the sender and completes it at the receiver.
func (s *sides) finish(st sdr.SendStream, h sdr.RecvHandle) {
	s.Helper()
	s.end(st)
	require.NoError(s, h.Complete())
	s.until("Done", h.Done)
}

// end ends a stream and waits until all of it has left.
func (s *sides) end(st sdr.SendStream) {
	s.Helper()
	require.NoError(s, st.End())
	s.until("the end of the send", func() bool { done, err := st.Poll(); require.NoError(s, err); return done })
}

// message sends n bytes from one side to the other, into a buffer, and checks them.
func (s *sides) message(from int, b *buffer, off, n units.Bytes) {
	s.Helper()
	h := s.recv(1-from, b, n)
	st := s.stream(from, off, n, sdr.SendOptions{Imm: uint32(n) * 2654435761, HasImm: true})
	s.arrive(st, h, n)
	copy(b.want[canary:], s.mr[from].Bytes()[off:off+n])
	b.check(s, "message")
	s.end(st) // fragments of the immediate that find no packet follow the end
	if n == 0 {
		s.until("the empty message", func() bool { return h.Bitmap().AllSet() })
	}
	if n > 0 && !s.lose() {
		s.until("the user immediate", func() bool { _, ok, err := h.Imm(); require.NoError(s, err); return ok })
		imm, _, _ := h.Imm()
		require.Equal(s, uint32(n)*2654435761, imm, "user immediate")
	}
	s.finish(st, h)
}

// smallSlots is a queue pair with few slots, so that they come round soon.
func smallSlots(slotBits, gens int) sdr.QPConfig {
	return sdr.QPConfig{
		Channels: 2, Generations: gens, MaxMessage: 256 * units.KiB, SendDepth: 256,
		Split: sdr.Split{SlotBits: uint8(slotBits), OffsetBits: uint8(28 - slotBits), FragmentBits: 4},
	}
}
