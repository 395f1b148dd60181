// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A stuckDevice can't say that nothing lands any more while stuck is set. addresses are those open.
type stuckDevice struct {
	backend.Device
	stuck     atomic.Bool
	addresses atomic.Int32
}

type stuckTable struct {
	backend.Table
	dev *stuckDevice
}

func (d *stuckDevice) NewTable(c backend.TableConfig) (backend.Table, error) {
	t, err := d.Device.NewTable(c)
	if err != nil {
		return nil, err
	}
	return &stuckTable{t, d}, nil
}

func (d *stuckDevice) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	d.addresses.Add(1)
	return d.Device.OpenAddress(i)
}

func (d *stuckDevice) CloseAddress(a backend.AddressHandle) error {
	d.addresses.Add(-1)
	return d.Device.CloseAddress(a)
}

func (d *stuckDevice) NewQP(c backend.QPConfig) (backend.QP, error) {
	if c.Table != nil {
		c.Table = c.Table.(*stuckTable).Table
	}
	return d.Device.NewQP(c)
}

func (t *stuckTable) Revoked(n uint64) bool { return !t.dev.stuck.Load() && t.Table.Revoked(n) }

// newStuck is newSockets, but that side 1 has a stuckDevice.
func newStuck(t *testing.T, workers int) (*sockets, *stuckDevice) {
	t.Helper()
	s, d := &sockets{}, &stuckDevice{}
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Port: userroce.AnyPort, Workers: workers})
		require.NoError(t, err)
		var dev backend.Device = s.dev[i]
		if i == 1 {
			d.Device = dev
			dev = d
		}
		s.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: workers})
		require.NoError(t, err)
	}
	t.Cleanup(func() { s.close(t) })
	return s, d
}

// TestFenceAfterBusyClose: Close gives up after a second because a fence isn't down. When it comes down
// later the receive ends, its memory can be deregistered, and the QP is gone, whoever looks.
func TestFenceAfterBusyClose(t *testing.T) {
	for name, closeIt := range map[string]func(*sockets, *sdr.QP) error{
		"queue pair": func(_ *sockets, q *sdr.QP) error { return q.Close() },
		"context":    func(s *sockets, _ *sdr.QP) error { return s.ctx[1].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each of these tests waits for a second
			s, dev := newStuck(t, 1)
			q := s.connect(t, sdr.QPConfig{})
			var r [3]sdr.RecvHandle
			var dst [3]*sdr.MR
			for i := range r {
				var err error
				dst[i] = s.mr(t, 1, 4096)
				r[i], err = q[1].PostRecv(dst[i], 0, 4096)
				require.NoError(t, err)
			}
			require.EqualValues(t, 1, dev.addresses.Load(), "the peer's")
			dev.stuck.Store(true)
			require.ErrorIs(t, closeIt(s, q[1]), sdr.ErrBusy)
			require.False(t, r[0].Done())
			require.ErrorIs(t, dst[0].Close(), sdr.ErrBusy)
			waited := make(chan error)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				waited <- r[0].Wait(ctx)
			}()
			dev.stuck.Store(false)
			require.NoError(t, <-waited)
			eventually(t, "a fence is down", r[1].Done)
			eventually(t, "memory is free", func() bool { return dst[2].Close() == nil })
			require.NoError(t, dst[0].Close())
			require.NoError(t, dst[1].Close())
			require.NoError(t, closeIt(s, q[1]), "closed again")
			eventually(t, "the QP is gone", func() bool { return s.ctx[1].Stats().QPs == 0 })
			require.Zero(t, dev.addresses.Load())
		})
	}
	t.Run("endpoint, memory first", func(t *testing.T) {
		t.Parallel()
		s, dev := newStuck(t, 1)
		q := s.connect(t, sdr.QPConfig{})
		dst := s.mr(t, 1, 4096)
		_, err := q[1].PostRecv(dst, 0, 4096)
		require.NoError(t, err)
		dev.stuck.Store(true)
		require.ErrorIs(t, s.ctx[1].Close(), sdr.ErrBusy)
		dev.stuck.Store(false)
		eventually(t, "memory is free", func() bool { return dst.Close() == nil })
	})
}

// countRecords is a log handler that counts.
type countRecords struct {
	slog.Handler
	n atomic.Int64
}

func (c *countRecords) Handle(context.Context, slog.Record) error { c.n.Add(1); return nil }

// TestDeviceClosedUnderEndpoint: the QPs fail, what waits ends, the log doesn't fill up, and all can be
// closed.
func TestDeviceClosedUnderEndpoint(t *testing.T) {
	for _, workers := range []int{1, 2} {
		log := &countRecords{Handler: slog.NewTextHandler(io.Discard, nil)}
		s := &sockets{}
		for i := range 2 {
			var err error
			s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Workers: workers})
			require.NoError(t, err)
			s.ctx[i], err = sdr.NewEndpoint(s.dev[i], sdr.EndpointConfig{Workers: workers, Logger: slog.New(log)})
			require.NoError(t, err)
		}
		q := s.connect(t, sdr.QPConfig{})
		idle := s.connect(t, sdr.QPConfig{})
		src, dst := s.mr(t, 1, 4096), s.mr(t, 1, 4096)
		r, err := q[1].PostRecv(dst, 0, 4096)
		require.NoError(t, err)
		h, err := q[1].PostSend(src, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
		require.NoError(t, s.dev[1].Close())
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, r.WaitArrived(ctx), sdr.ErrClosed)
		require.ErrorIs(t, r.WaitArrived(ctx), backend.ErrClosed)
		require.NoError(t, r.Wait(ctx), "the fence")
		require.ErrorIs(t, h.Wait(ctx), sdr.ErrClosed)
		require.ErrorIs(t, q[1].Err(), sdr.ErrClosed)
		require.NotContains(t, q[1].Err().Error(), "closed: closed")
		eventually(t, "an idle QP fails too", func() bool { return idle[1].Err() != nil })
		time.Sleep(200 * time.Millisecond)
		require.LessOrEqual(t, log.n.Load(), int64(20), "records in the log")
		_, err = s.ctx[1].NewQP(sdr.QPConfig{})
		require.Error(t, err)
		begun := time.Now()
		require.NoError(t, s.ctx[1].Close())
		require.Less(t, time.Since(begun), 5*time.Second)
		s.close(t)
	}
}

// A removedCQ is one whose Wait fails at once, each time, when its device is gone, while it is only empty.
type removedCQ struct {
	backend.CQ
	gone  *atomic.Bool
	waits *atomic.Int64
}

func (c *removedCQ) Wait(d units.Duration) error {
	if c.gone.Load() {
		c.waits.Add(1)
		return io.ErrUnexpectedEOF
	}
	return c.CQ.Wait(d)
}

// TestWaitFails: an error of Wait is the end of a device as well, and no reason to ask again at once.
func TestWaitFails(t *testing.T) {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Port: userroce.AnyPort})
	require.NoError(t, err)
	var gone atomic.Bool
	var waited atomic.Int64
	c, err := sdr.NewEndpoint(cqtest.Wrap(dev, func(q backend.CQ) backend.CQ { return &removedCQ{q, &gone, &waited} }), sdr.EndpointConfig{Workers: 1})
	require.NoError(t, err)
	q, err := c.NewQP(sdr.QPConfig{})
	require.NoError(t, err)
	begun := time.Now()
	require.NoError(t, c.Err())
	gone.Store(true)
	eventually(t, "the QP fails", func() bool { return errors.Is(q.Err(), io.ErrUnexpectedEOF) })
	require.ErrorIs(t, c.Err(), io.ErrUnexpectedEOF)
	time.Sleep(100 * time.Millisecond)
	waits, took := waited.Load(), time.Since(begun)
	require.LessOrEqual(t, waits, 1+int64(took/sdr.BrokenPause), "in %v", took)
	require.NoError(t, c.Close())
	require.NoError(t, dev.Close())
}

// A blocker is a driver that calls what blocks.
type blocker struct {
	call     func() error
	progress chan error
	failed   chan error
}

func (b *blocker) Progress(*sdr.Port) units.Instant {
	b.report(b.progress)
	return units.Never
}

func (b *blocker) Failed(error) { b.report(b.failed) }

func (b *blocker) report(c chan error) {
	select {
	case c <- func() error { return b.call() }(): // called by a function of its own, as from within a scheme: Progress need not be the direct caller
	default:
	}
}

// TestBlockingCallsInDriver: a driver that makes a blocking call would stall the worker that the call
// waits for. It gets an error, in Progress and in Failed, and another goroutine doesn't.
func TestBlockingCallsInDriver(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for name, call := range map[string]func(s *sockets, q *sdr.QP, r sdr.RecvHandle) error{
		"QP.Connect":             func(_ *sockets, q *sdr.QP, _ sdr.RecvHandle) error { return q.Connect(ctx, q.Info()) },
		"QP.Close":               func(_ *sockets, q *sdr.QP, _ sdr.RecvHandle) error { return q.Close() },
		"Endpoint.Close":         func(s *sockets, _ *sdr.QP, _ sdr.RecvHandle) error { return s.ctx[1].Close() },
		"another Endpoint.Close": func(s *sockets, _ *sdr.QP, _ sdr.RecvHandle) error { return s.ctx[0].Close() },
		"RecvHandle.Wait":        func(_ *sockets, _ *sdr.QP, r sdr.RecvHandle) error { return r.Wait(ctx) },
		"RecvHandle.WaitArrived": func(_ *sockets, _ *sdr.QP, r sdr.RecvHandle) error { return r.WaitArrived(ctx) },
		"QP.Await":               func(_ *sockets, q *sdr.QP, _ sdr.RecvHandle) error { return q.Await(ctx, make(chan struct{})) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSockets(t, 1)
			plain := s.connect(t, sdr.QPConfig{})
			r, err := plain[1].PostRecv(s.mr(t, 1, 4096), 0, 4096)
			require.NoError(t, err)
			b := &blocker{progress: make(chan error, 1), failed: make(chan error, 1)}
			var q [2]*sdr.QP
			b.call = func() error { return call(s, q[1], r) }
			q[0], err = s.ctx[0].NewQP(sdr.QPConfig{})
			require.NoError(t, err)
			q[1], err = s.ctx[1].NewQP(sdr.QPConfig{Driver: b})
			require.NoError(t, err)
			connected := make(chan error, 1)
			go func() { connected <- q[0].Connect(ctx, q[1].Info()) }()
			require.NoError(t, q[1].Connect(ctx, q[0].Info()))
			require.NoError(t, <-connected)
			refused := func(c chan error) {
				select {
				case err := <-c:
					require.ErrorIs(t, err, sdr.ErrNotSupported)
					require.ErrorContains(t, err, "Driver")
				case <-ctx.Done():
					require.Fail(t, "the driver was not called, or hangs")
				}
			}
			refused(b.progress)
			require.NoError(t, q[1].Err(), "it is still open")
			elsewhere := make(chan error, 1)
			go func() { elsewhere <- q[1].Close() }()
			require.NoError(t, <-elsewhere)
			if name != "RecvHandle.WaitArrived" && name != "RecvHandle.Wait" {
				refused(b.failed)
			}
		})
	}
}

// TestPeerDiesWhileFencesTakeTime: time goes on between the peer's death and the fences of what it was to write.
func TestPeerDiesWhileFencesTakeTime(t *testing.T) {
	sc := link()
	sc.RevokeTime = ms
	p := newPair(t, sc, small)
	h, err := p.qp[1].PostRecv(p.mr(1, 4096, false), 0, 4096)
	require.NoError(t, err)
	require.NoError(t, p.ctx[0].Close())
	p.until(40*units.Second, h.Done)
	require.ErrorIs(t, h.Err(), sdr.ErrPeerDead)
}
