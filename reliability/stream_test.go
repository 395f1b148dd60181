// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// piece is the length of a stream's pieces, and ahead how many of them are under way.
const (
	piece = 8 * units.MiB
	ahead = 8
)

var errDisk = errors.New("the disk is broken")

// A source is zeroes; before is called first with how many reads there have been.
type source struct {
	before func(reads int64) error
	reads  atomic.Int64
}

func (s *source) ReadAt(b []byte, _ int64) (int, error) {
	n := s.reads.Add(1) - 1
	if s.before != nil {
		if err := s.before(n); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// A sink takes everything; before is called first with how many writes there have been.
type sink struct {
	before func(writes int64) error
	writes atomic.Int64
}

func (s *sink) WriteAt(b []byte, _ int64) (int, error) {
	n := s.writes.Add(1) - 1
	if s.before != nil {
		if err := s.before(n); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func newStreamed(t *testing.T) (*sides, context.Context) {
	e := overSockets(t, linkemu.Config{}, reliability.Config{AwaitBuffer: true}, newSR(t, sr.RTO))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // ends nothing unless the code is wrong
	t.Cleanup(cancel)
	return e, ctx
}

// requireStopped: nothing goes from side 0 to side 1 any more, and everything the other way.
func (e *sides) requireStopped(t *testing.T) {
	t.Helper()
	a, b := e.alloc(t, 0, 100), e.alloc(t, 1, 100)
	// The end that didn't fail first may learn of it with its next call.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range 2 {
		require.Error(t, e.conn[0].Send(ctx, a, 0, 100, reliability.SendOptions{}))
		_, err := e.conn[1].Recv(ctx, b, 0, 100)
		require.Error(t, err)
	}
	require.NoError(t, ctx.Err(), "somebody waits")
	err := e.conn[0].SendFrom(ctx, new(source), 1, nil)
	require.ErrorIs(t, err, sdr.ErrClosed)
	require.ErrorContains(t, err, "close the connection")
	_, err = e.conn[1].RecvTo(ctx, new(sink), nil)
	require.ErrorIs(t, err, sdr.ErrClosed)
	require.ErrorContains(t, err, "close the connection")
	sent := make(chan error, 1)
	go func() { sent <- e.conn[1].Send(ctx, b, 0, 100, reliability.SendOptions{}) }()
	_, err = e.conn[0].Recv(ctx, a, 0, 100)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}

// TestStreamFails: a stream that fails at one end, wherever, fails at the other, and what follows is taken for nothing of it.
func TestStreamFails(t *testing.T) {
	at := func(n int64) func(int64) error {
		return func(i int64) error {
			if i == n {
				return errDisk
			}
			return nil
		}
	}
	for _, c := range []struct {
		name        string
		read, write func(int64) error
		size        units.Bytes
		written     units.Bytes // -1: any
	}{
		{"first read", at(0), nil, 2 * piece, 0},
		{"later read", at(1), nil, 2*piece + 1, -1},
		{"first write", nil, at(0), 2 * piece, 0},
		{"write with pieces to come", nil, at(1), (ahead + 3) * piece, piece},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, ctx := newStreamed(t)
			sent := make(chan error, 1)
			go func() { sent <- e.conn[0].SendFrom(ctx, &source{before: c.read}, c.size, nil) }()
			n, err := e.conn[1].RecvTo(ctx, &sink{before: c.write}, nil)
			require.Error(t, err)
			if c.written >= 0 {
				require.Equal(t, c.written, n)
			}
			sendErr := <-sent
			require.NoError(t, ctx.Err(), "somebody waited")
			if c.read != nil {
				require.ErrorIs(t, sendErr, errDisk)
				require.ErrorIs(t, err, sdr.ErrAborted)
				require.ErrorContains(t, err, "the peer's SendFrom failed")
			} else {
				require.ErrorIs(t, err, errDisk)
				if c.size > ahead*piece { // otherwise all may have arrived
					require.ErrorIs(t, sendErr, sdr.ErrCompleted)
					require.ErrorContains(t, sendErr, "RecvTo failed")
				}
			}
			e.requireStopped(t)
		})
	}
}

// TestStreamPanics: a reader or writer that panics, or ends its goroutine, fails the stream at both ends as an error does.
func TestStreamPanics(t *testing.T) {
	unwind := func(int64) error { panic("mine") }
	for _, c := range []struct {
		name        string
		read, write func(int64) error
	}{
		{"reader panics", unwind, nil},
		{"writer panics", nil, unwind},
		{"writer exits", nil, func(int64) error { runtime.Goexit(); return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, ctx := newStreamed(t)
			var ends sync.WaitGroup
			for _, call := range []func(){
				func() { _ = e.conn[0].SendFrom(ctx, &source{before: c.read}, 2*ahead*piece, nil) },
				func() { _, _ = e.conn[1].RecvTo(ctx, &sink{before: c.write}, nil) },
			} {
				ends.Go(func() {
					defer func() { _ = recover() }()
					call()
				})
			}
			ends.Wait()
			require.NoError(t, ctx.Err(), "somebody waited")
			e.requireStopped(t)
		})
	}
}

// TestStreamGivenUpEarly: the end that comes too late for a stream learns that it was given up.
func TestStreamGivenUpEarly(t *testing.T) {
	enough := errors.New("enough")
	for _, who := range []string{"sender", "receiver"} {
		t.Run(who, func(t *testing.T) {
			e, ctx := newStreamed(t)
			short, cancel := context.WithCancelCause(ctx)
			calls := []func(context.Context) error{
				func(ctx context.Context) error { return e.conn[0].SendFrom(ctx, new(source), piece, nil) },
				func(ctx context.Context) error { _, err := e.conn[1].RecvTo(ctx, new(sink), nil); return err },
			}
			if who == "receiver" {
				calls[0], calls[1] = calls[1], calls[0]
			}
			first := make(chan error, 1)
			go func() { first <- calls[0](short) }()
			require.Eventually(t, func() bool { return !e.conn[0].Idle() || !e.conn[1].Idle() }, 10*time.Second, time.Millisecond)
			cancel(enough)
			require.ErrorIs(t, <-first, enough)
			require.Error(t, calls[1](ctx))
			require.NoError(t, ctx.Err(), "it waited")
			e.requireStopped(t)
		})
	}
}

// TestStreamCancelled: ending the context of a stream ends it also when no transfer has to be waited for, as all of them are ahead of the disk.
func TestStreamCancelled(t *testing.T) {
	t.Run("receiver", func(t *testing.T) {
		e, ctx := newStreamed(t)
		ending, cancel := context.WithCancel(ctx)
		sent := make(chan error, 1)
		go func() { sent <- e.conn[0].SendFrom(ctx, new(source), 3*piece, nil) }()
		w := &sink{before: func(writes int64) error {
			if writes == 0 {
				require.NoError(t, <-sent)
				cancel()
			}
			return nil
		}}
		n, err := e.conn[1].RecvTo(ending, w, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, piece, n)
		require.EqualValues(t, 1, w.writes.Load())
		e.requireStopped(t)
	})
	t.Run("sender", func(t *testing.T) {
		e, ctx := newStreamed(t)
		ending, cancel := context.WithCancel(ctx)
		received := make(chan error, 1)
		go func() { _, err := e.conn[1].RecvTo(ctx, new(sink), nil); received <- err }()
		r := &source{before: func(int64) error { cancel(); return nil }}
		require.ErrorIs(t, e.conn[0].SendFrom(ending, r, 3*piece, nil), context.Canceled)
		require.EqualValues(t, 1, r.reads.Load())
		require.ErrorIs(t, <-received, sdr.ErrAborted)
		e.requireStopped(t)
	})
}

// TestStreamContent: a stream arrives as it was, whatever its length, and transfers before and after it.
func TestStreamContent(t *testing.T) {
	e, ctx := newStreamed(t)
	src, dst := e.alloc(t, 0, 100), e.alloc(t, 1, 100)
	for _, n := range []units.Bytes{0, 1, piece + 5} {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(i * 7 >> 3)
		}
		sent := make(chan error, 1)
		go func() { sent <- e.conn[0].SendFrom(ctx, bytes.NewReader(content), n, nil) }()
		var got memory
		m, err := e.conn[1].RecvTo(ctx, &got, nil)
		require.NoError(t, err)
		require.NoError(t, <-sent)
		require.Equal(t, n, m)
		require.True(t, bytes.Equal(content, got))
		e.move(t, src, dst, 100)
	}
}

// A memory grows to what is written.
type memory []byte

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if n := int(off) + len(b); n > len(*m) {
		*m = append(*m, make([]byte, n-len(*m))...)
	}
	return copy((*m)[off:], b), nil
}

// TestNoStream: what isn't of a stream is not taken for it, and no memory is made for a header that no end sends.
func TestNoStream(t *testing.T) {
	magic := reliability.SendOptions{Imm: 0x53445246, HasImm: true}
	type send struct {
		n units.Bytes
		o reliability.SendOptions
	}
	for name, c := range map[string]struct {
		total, piece uint64
		sends        []send
	}{
		"no immediate":        {100, 100, []send{{16, reliability.SendOptions{}}}},
		"long":                {100, 100, []send{{15, magic}}},
		"short piece":         {100, 100, []send{{16, magic}, {3, reliability.SendOptions{HasImm: true}}}},
		"piece out of order":  {100, 100, []send{{16, magic}, {100, reliability.SendOptions{Imm: 1, HasImm: true}}}},
		"piece without order": {100, 100, []send{{16, magic}, {100, reliability.SendOptions{}}}},
		"pieces of nothing":   {100, 0, []send{{16, magic}}},
		"negative pieces":     {100, 1 << 63, []send{{16, magic}}},
		"huge pieces":         {1 << 40, 64<<20 + 1, []send{{16, magic}}},
		"negative size":       {1 << 63, 100, []send{{16, magic}}},
		"huge size":           {1<<63 - 1, 100, []send{{16, magic}}},
	} {
		t.Run(name, func(t *testing.T) {
			e, ctx := newStreamed(t)
			src := e.alloc(t, 0, 100)
			copy(src.Bytes(), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.total), c.piece))
			sent := make(chan error, 1)
			go func() {
				var err error
				for _, s := range c.sends {
					err = errors.Join(err, e.conn[0].Send(ctx, src, 0, s.n, s.o))
				}
				sent <- err
			}()
			n, err := e.conn[1].RecvTo(ctx, new(sink), nil)
			require.ErrorIs(t, err, sdr.ErrMismatch)
			require.ErrorContains(t, err, "SendFrom")
			require.Zero(t, n)
			require.NoError(t, <-sent)
		})
	}
}

// TestNothingBetween: no other transfer comes between those of a stream.
func TestNothingBetween(t *testing.T) {
	e, ctx := newStreamed(t)
	src, dst := e.alloc(t, 0, 100), e.alloc(t, 1, 100)
	sent := make(chan error, 1)
	r := &source{before: func(int64) error {
		_, err := e.conn[0].StartSend(src, 0, 100, reliability.SendOptions{})
		require.ErrorIs(t, err, sdr.ErrBusy)
		require.ErrorIs(t, e.conn[0].SendFrom(ctx, new(source), 1, nil), sdr.ErrBusy)
		return nil
	}}
	go func() { sent <- e.conn[0].SendFrom(ctx, r, 100, nil) }()
	w := &sink{before: func(int64) error {
		_, err := e.conn[1].StartRecv(dst, 0, 100)
		require.ErrorIs(t, err, sdr.ErrBusy)
		return nil
	}}
	n, err := e.conn[1].RecvTo(ctx, w, nil)
	require.NoError(t, err)
	require.EqualValues(t, 100, n)
	require.NoError(t, <-sent)
	e.move(t, src, dst, 100)
}

// TestShortWrite: a writer that takes less than it was given, and says nothing, has failed.
func TestShortWrite(t *testing.T) {
	e, ctx := newStreamed(t)
	go func() { _ = e.conn[0].SendFrom(ctx, new(source), 100, nil) }()
	n, err := e.conn[1].RecvTo(ctx, takesHalf{}, nil)
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.EqualValues(t, 50, n)
}

type takesHalf struct{}

func (takesHalf) WriteAt(b []byte, _ int64) (int, error) { return len(b) / 2, nil }

// TestMemoryHeld: memory can't be closed from when a transfer begins until it has ended, whether the peer has begun its own or not.
func TestMemoryHeld(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	src, dst := p.mr(0, 5000, 1), p.mr(1, 5000, 0)
	s, err := p.conn[0].StartSend(src, 0, 5000, reliability.SendOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, src.Close(), sdr.ErrBusy)
	r := start(t, p.conn[1].StartRecv, dst)
	require.ErrorIs(t, dst.Close(), sdr.ErrBusy)
	p.until(units.Second, func() bool { return finished(r) && finished(s) })
	require.NoError(t, s.Err())
	require.NoError(t, r.Err())
	require.NoError(t, src.Close())
	require.NoError(t, dst.Close())
}

// TestRefused: a call that can't be is refused at once and counts as none, so that the peer meets the next.
func TestRefused(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	closed, foreign := p.mr(1, 100, 0), p.mr(0, 100, 0)
	require.NoError(t, closed.Close())
	readOnly, err := p.ctx[1].RegisterMemory(make([]byte, 100), 0)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		mr   *sdr.MR
		n    units.Bytes
		want error
	}{
		{"closed", closed, 100, sdr.ErrClosed}, {"foreign", foreign, 100, sdr.ErrArgument}, {"none", nil, 0, sdr.ErrArgument},
		{"not to be written", readOnly, 100, sdr.ErrArgument}, {"too short", p.mr(1, 99, 0), 100, sdr.ErrArgument},
	} {
		_, err := p.conn[1].StartRecv(c.mr, 0, c.n)
		require.ErrorIs(t, err, c.want, c.name)
		if c.mr != readOnly {
			_, err = p.conn[1].StartSend(c.mr, 0, c.n, reliability.SendOptions{})
			require.ErrorIs(t, err, c.want, c.name)
		}
	}
	require.NoError(t, readOnly.Close())
	require.NoError(t, foreign.Close())
	p.one(100, 100)
}

// A unexposing device exposes no memory while fails is set.
type unexposing struct {
	backend.Device
	fails atomic.Bool
}

type unexposingTable struct {
	backend.Table
	dev *unexposing
}

func (d *unexposing) NewTable(c backend.TableConfig) (backend.Table, error) {
	t, err := d.Device.NewTable(c)
	if err != nil {
		return nil, err
	}
	return &unexposingTable{t, d}, nil
}

func (d *unexposing) NewQP(c backend.QPConfig) (backend.QP, error) {
	if c.Table != nil {
		c.Table = c.Table.(*unexposingTable).Table
	}
	return d.Device.NewQP(c)
}

func (t *unexposingTable) Expose(n uint64, r backend.Region, rg backend.Range) (uint32, uint64, error) {
	if t.dev.fails.Load() {
		return 0, 0, errDisk
	}
	return t.Table.Expose(n, r, rg)
}

// TestDeviceRefuses: a receive that the device refuses fails the send that it would have met, too.
func TestDeviceRefuses(t *testing.T) {
	var dev *unexposing
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO), conn: reliability.Config{AwaitBuffer: true},
		wrap: func(side int, d backend.Device) backend.Device {
			if side == 1 {
				dev = &unexposing{Device: d}
				return dev
			}
			return d
		}})
	dev.fails.Store(true)
	s, err := p.conn[0].StartSend(p.mr(0, 100, 1), 0, 100, reliability.SendOptions{})
	require.NoError(t, err)
	r := start(t, p.conn[1].StartRecv, p.mr(1, 100, 0))
	p.until(units.Second, func() bool { return finished(r) && finished(s) })
	require.ErrorIs(t, r.Err(), errDisk)
	require.ErrorIs(t, s.Err(), sdr.ErrCompleted)
	dev.fails.Store(false)
	_, err = p.conn[1].StartRecv(p.mr(1, 100, 0), 0, 100)
	require.ErrorIs(t, err, sdr.ErrClosed)
	require.ErrorContains(t, err, errDisk.Error())
	_, err = p.conn[0].StartSend(p.mr(0, 100, 0), 0, 100, reliability.SendOptions{})
	require.ErrorIs(t, err, sdr.ErrClosed)
}
