// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// introduced connects two Conns over TCP, and returns them with the TCP connection of side 0.
func introduced(t *testing.T) (conn [2]*reliability.Conn, tcp *oob.Conn) {
	t.Helper()
	return introducedOn(t, func(d backend.Device) backend.Device { return d })
}

// introducedOn is introduced with what on makes of side 0's device.
func introducedOn(t *testing.T, on func(backend.Device) backend.Device) (conn [2]*reliability.Conn, tcp *oob.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l, err := oob.Listen(ctx, loopback(0).String()+":0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	for i := range conn {
		opened, err := userroce.Open(userroce.Config{Addr: loopback(i)})
		require.NoError(t, err)
		dev := backend.Device(opened)
		if i == 0 {
			dev = on(dev)
		}
		c, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
		require.NoError(t, err)
		conn[i], err = reliability.NewConn(c, sdr.QPConfig{}, reliability.Config{Scheme: newSR(t, sr.RTO)()})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, conn[i].Close())
			require.NoError(t, c.Close())
			require.NoError(t, dev.Close())
		})
	}
	done := make(chan error, 1)
	go func() {
		s, err := l.Accept(ctx)
		if err == nil {
			err = conn[1].ConnectOver(ctx, s)
		}
		done <- err
	}()
	tcp, err = oob.Dial(ctx, l.Addr().String(), oob.Config{})
	require.NoError(t, err)
	require.NoError(t, conn[0].ConnectOver(ctx, tcp))
	require.NoError(t, <-done)
	return conn, tcp
}

// TestPeerLeaves: who closes in order is not dead, and who only breaks off is.
func TestPeerLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		leave     func(*reliability.Conn, *oob.Conn) error
		want, not error
	}{
		"closes":     {func(c *reliability.Conn, _ *oob.Conn) error { return c.Close() }, sdr.ErrPeerClosed, sdr.ErrPeerDead},
		"says why":   {func(_ *reliability.Conn, s *oob.Conn) error { return s.CloseWithReason("another one is served") }, sdr.ErrPeerClosed, sdr.ErrPeerDead},
		"breaks off": {func(_ *reliability.Conn, s *oob.Conn) error { return s.Close() }, sdr.ErrPeerDead, sdr.ErrPeerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			conn, tcp := introduced(t)
			buf := make([]byte, units.KiB)
			mr, err := conn[1].QP().Endpoint().RegisterMemory(buf, sdr.AccessRemoteWrite)
			require.NoError(t, err)
			r, err := conn[1].StartRecv(mr, 0, units.KiB)
			require.NoError(t, err)
			require.NoError(t, c.leave(conn[0], tcp))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err = r.Wait(ctx)
			require.ErrorIs(t, err, c.want)
			require.NotErrorIs(t, err, c.not)
			require.NoError(t, mr.Close())
		})
	}
}

// A exchanged is a Session that carries nothing but the peer's info.
type exchanged struct {
	exchange func() []byte
	closed   chan struct{}
}

func (s *exchanged) Exchange(context.Context, []byte) ([]byte, error) { return s.exchange(), nil }
func (s *exchanged) Send(context.Context, []byte) error               { return nil }
func (s *exchanged) Close() error                                     { close(s.closed); return nil }

func (s *exchanged) Recv(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// TestSessionsOfNoUse: a Conn that is connected, or has been closed, says nothing over a session that is for nothing, and leaves it to the caller;
// one that comes when the Conn has been closed meanwhile is closed, since nobody else would.
func TestSessionsOfNoUse(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	unused := &exchanged{exchange: func() []byte { t.Error("an exchange"); return nil }, closed: make(chan struct{})}
	require.ErrorIs(t, p.conn[0].ConnectOver(t.Context(), unused), sdr.ErrBusy)
	require.ErrorIs(t, p.conn[0].Connect(t.Context(), p.conn[1].Info()), sdr.ErrBusy)
	require.ErrorIs(t, p.conn[0].StartConnect(p.conn[1].Info()), sdr.ErrBusy)
	p.one(5000, 5000)

	late := &exchanged{closed: make(chan struct{})}
	fresh, err := reliability.NewConn(p.ctx[0], smallQP, reliability.Config{Scheme: newSR(t, sr.RTO)()})
	require.NoError(t, err)
	late.exchange = func() []byte {
		require.NoError(t, fresh.Close())
		return p.conn[1].Info()
	}
	require.ErrorIs(t, fresh.ConnectOver(t.Context(), late), sdr.ErrClosed)
	<-late.closed
	require.ErrorIs(t, fresh.ConnectOver(t.Context(), unused), sdr.ErrClosed)
	require.False(t, signal.Closed(unused.closed))
}

// TestConnectedTwice: another ConnectOver, with the session that the Conn has or beside the first, is refused and harms nothing.
func TestConnectedTwice(t *testing.T) {
	conn, tcp := introduced(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		require.ErrorIs(t, conn[0].ConnectOver(ctx, tcp), sdr.ErrBusy)
	}
	var mr [2]*sdr.MR
	for i := range mr {
		var err error
		mr[i], err = conn[i].QP().Endpoint().RegisterMemory(make([]byte, units.KiB), sdr.AccessRemoteWrite)
		require.NoError(t, err)
		defer mr[i].Close()
	}
	r, err := conn[1].StartRecv(mr[1], 0, units.KiB)
	require.NoError(t, err)
	require.NoError(t, conn[0].Send(ctx, mr[0], 0, units.KiB, reliability.SendOptions{}))
	require.NoError(t, r.Wait(ctx))
}

// A silentSession is one over which the peer says nothing.
type silentSession struct {
	exchanged
	asked chan struct{}
}

func (s *silentSession) Exchange(ctx context.Context, _ []byte) ([]byte, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestOneExchange: while one call connects, others are refused; its session stays the caller's when the exchange fails, after which there may be
// another, and Close ends it.
func TestOneExchange(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	c, err := reliability.NewConn(p.ctx[0], smallQP, reliability.Config{Scheme: newSR(t, sr.RTO)()})
	require.NoError(t, err)
	s := &silentSession{exchanged{closed: make(chan struct{})}, make(chan struct{})}
	for _, end := range []func(context.CancelFunc) error{
		func(cancel context.CancelFunc) error { cancel(); return context.Canceled },
		func(context.CancelFunc) error { assert.NoError(t, c.Close()); return sdr.ErrClosed },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		over := make(chan error, 1)
		go func() { over <- c.ConnectOver(ctx, s) }()
		<-s.asked
		require.ErrorIs(t, c.ConnectOver(ctx, s), sdr.ErrBusy)
		require.ErrorIs(t, c.Connect(ctx, p.conn[1].Info()), sdr.ErrBusy)
		require.ErrorIs(t, c.StartConnect(p.conn[1].Info()), sdr.ErrBusy)
		want := end(cancel)
		require.ErrorIs(t, <-over, want)
	}
	require.False(t, signal.Closed(s.closed))
}

// TestConnectAfterRefusal: what was refused before it began may be tried again.
func TestConnectAfterRefusal(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	c, err := reliability.NewConn(p.ctx[0], smallQP, reliability.Config{Scheme: newSR(t, sr.RTO)()})
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, c.Connect(t.Context(), []byte("no info")), sdr.ErrMismatch)
		require.ErrorIs(t, c.StartConnect([]byte("no info")), sdr.ErrMismatch)
	}
	require.NoError(t, c.StartConnect(p.conn[1].Info()))
	require.ErrorIs(t, c.StartConnect(p.conn[1].Info()), sdr.ErrBusy)
	require.NoError(t, c.Close())
}

// A slowClock is a device whose clock can be made to stand while somebody reads it.
type slowClock struct {
	backend.Device
	stand atomic.Pointer[chan struct{}]
	read  chan struct{} // one token once somebody waits for it
}

func (d *slowClock) Now() units.Instant {
	if s := d.stand.Load(); s != nil {
		select {
		case d.read <- struct{}{}:
		default:
		}
		<-*s
	}
	return d.Device.Now()
}

// TestEndlessFarewell: a peer's farewell is no longer than what it can have to say, and comes once: while its frames are handled all wait that
// share the worker.
func TestEndlessFarewell(t *testing.T) {
	conn, tcp := introduced(t)
	end := []byte{3, 0xff, 0xff, 0x3f, 0} // END of a message that was never granted
	for range 2 {
		require.NoError(t, tcp.Send(t.Context(), bytes.Repeat(end, 200_000)))
	}
	require.NoError(t, tcp.CloseWithReason("enough"))
	require.Eventually(t, func() bool { return conn[1].QP().Err() != nil }, 10*time.Second, time.Millisecond)
	said := conn[1].QP().Stats().Control.Violations
	require.NotZero(t, said)
	require.LessOrEqual(t, said, uint64(32*conn[1].QP().Config().Split.Slots()))
}

// TestFarewellOfBusyQP: a queue pair that somebody has for longer than the farewell may take costs the peer nothing of it.
func TestFarewellOfBusyQP(t *testing.T) {
	clock := &slowClock{read: make(chan struct{}, 1)}
	conn, _ := introducedOn(t, func(d backend.Device) backend.Device { clock.Device = d; return clock })
	buf, err := conn[1].QP().Endpoint().RegisterMemory(make([]byte, units.KiB), sdr.AccessRemoteWrite)
	require.NoError(t, err)
	r, err := conn[1].StartRecv(buf, 0, units.KiB)
	require.NoError(t, err)

	stand := make(chan struct{})
	clock.stand.Store(&stand)
	var wg sync.WaitGroup
	wg.Go(func() { conn[0].QP().Deliver(nil) }) // it reads the clock while it has the queue pair
	<-clock.read
	time.Sleep(50 * time.Millisecond) // if that was a worker
	wg.Go(func() { assert.NoError(t, conn[0].Close()) })
	time.Sleep(reliability.FarewellTime + 100*time.Millisecond)
	clock.stand.Store(nil)
	close(stand)
	wg.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.ErrorIs(t, r.Wait(ctx), sdr.ErrPeerClosed)
	require.NoError(t, buf.Close())
}
