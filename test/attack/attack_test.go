// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// size and rate make a transfer of a second, so that trouble that begins when some of it has arrived meets
	// its middle.
	size = 64 * units.MiB
	rate = 500 * units.Mbit
	// waitLimit is how long a transfer may take that nothing harms but what the test does to it.
	waitLimit = 60 * time.Second
	port      = 18515
)

// An end is one host with the stack.
type end struct {
	host *netnstest.Host
	addr netip.Addr
	dev  *userroce.Device
	ctx  *sdr.Endpoint
	mr   *sdr.MR
	// noProgress is that of its next connection; 0 is the default, 30 s.
	noProgress units.Duration
}

// newEnds starts the stack on two hosts that a cable joins.
func newEnds(t *testing.T, v6 bool) (a, b *end) {
	t.Helper()
	ha, hb := netnstest.Pair(t, 9000)
	return newEnd(t, ha, v6, 1), newEnd(t, hb, v6, 0)
}

func newEnd(t *testing.T, h *netnstest.Host, v6 bool, seed byte) *end {
	t.Helper()
	e := &end{host: h, addr: h.V4}
	if v6 {
		e.addr = h.V6
	}
	h.Do(func() {
		var err error
		e.dev, err = userroce.Open(userroce.Config{Addr: e.addr, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
	})
	t.Cleanup(func() { require.NoError(t, e.dev.Close()) })
	var err error
	e.ctx, err = sdr.NewEndpoint(e.dev, sdr.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.ctx.Close()) })
	b := make([]byte, size)
	if seed != 0 {
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	}
	e.mr, err = e.ctx.RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	return e
}

// connect makes a connection from a to b, with an out-of-band session as the programs have it.
func connect(t *testing.T, a, b *end) (ca, cb *reliability.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	at := netip.AddrPortFrom(b.addr, port).String()
	var l *oob.Listener
	b.host.Do(func() {
		var err error
		l, err = oob.Listen(ctx, at, oob.Config{})
		require.NoError(t, err)
	})
	defer l.Close()
	type result struct {
		c   *reliability.Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		c, err := b.conn(ctx, func() (*oob.Conn, error) { return l.Accept(ctx) })
		accepted <- result{c, err}
	}()
	ca, err := a.conn(ctx, func() (*oob.Conn, error) { return oob.Dial(ctx, at, oob.Config{}) })
	r := <-accepted
	require.NoError(t, errors.Join(err, r.err))
	t.Cleanup(func() { require.NoError(t, errors.Join(ca.Close(), r.c.Close())) })
	return ca, r.c
}

func (e *end) conn(ctx context.Context, meet func() (*oob.Conn, error)) (c *reliability.Conn, err error) {
	e.host.Do(func() {
		var s *oob.Conn
		if s, err = meet(); err != nil {
			return
		}
		var repair scheme.Scheme
		if repair, err = adaptive.New(adaptive.Config{}); err != nil {
			return
		}
		if c, err = reliability.NewConn(e.ctx, sdr.QPConfig{Silence: 30 * units.Second}, reliability.Config{
			Scheme: repair, Rate: rate, NoProgress: e.noProgress,
		}); err != nil {
			return
		}
		err = c.ConnectOver(ctx, s)
	})
	return c, err
}

// move transfers a's memory to b's, and calls trouble meanwhile.
func move(t *testing.T, a, b *end, ca, cb *reliability.Conn, trouble func()) {
	t.Helper()
	clear(b.mr.Bytes())
	r, err := cb.StartRecv(b.mr, 0, size)
	require.NoError(t, err)
	s, err := ca.StartSend(a.mr, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	if trouble != nil {
		begun(t, r)
		trouble()
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	require.NoError(t, s.Wait(ctx))
	require.NoError(t, r.Wait(ctx))
	require.True(t, bytes.Equal(a.mr.Bytes(), b.mr.Bytes()))
}

// begun waits until some of a transfer has arrived.
func begun(t *testing.T, r *reliability.Transfer) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if placed, _ := r.Progress(); placed > 0 {
			require.Less(t, placed, size, "it must be in the middle")
			return
		}
		require.NoError(t, r.Err(), "nothing has arrived")
		require.Less(t, time.Since(start), waitLimit, "nothing arrives")
	}
}

func families(t *testing.T, f func(t *testing.T, v6 bool)) {
	t.Parallel()
	for i, v6 := range []bool{false, true} {
		t.Run("IPv"+strconv.Itoa(4+2*i), func(t *testing.T) {
			t.Parallel()
			f(t, v6)
		})
	}
}

// TestOutage: for 12 s nothing passes in either direction, and both ends are configured to bear 30 s.
func TestOutage(t *testing.T) {
	t.Parallel()
	a, b := newEnds(t, false)
	ca, cb := connect(t, a, b)
	move(t, a, b, ca, cb, func() {
		healA, healB := a.host.Cut(), b.host.Cut()
		time.Sleep(12 * time.Second)
		healA()
		healB()
	})
	move(t, a, b, ca, cb, nil)
}

// TestForgedICMP: a third host says all the time that packets don't fit the path. The transfer under way doesn't
// hear of it, nor do new connections.
func TestForgedICMP(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newEnds(t, v6)
		liar := netip.MustParseAddr("192.0.2.77")
		if v6 {
			liar = netip.MustParseAddr("fd00::77")
		}
		ca, cb := connect(t, a, b)
		attack := func() {
			for range 10 {
				for source := range uint16(32) {
					src := netip.AddrPortFrom(a.addr, 0xc000+source)
					b.host.Send(netnstest.TooBig(liar, src, b.dev.Addr(), 1300))
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		move(t, a, b, ca, cb, attack)
		ca, cb = connect(t, a, b)
		move(t, a, b, ca, cb, nil)
		require.Zero(t, a.dev.WireStats().TooLarge)
	})
}

// TestMTUDrop: for two seconds the interface has no room for packets of the queue pair's MTU.
func TestMTUDrop(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newEnds(t, v6)
		ca, cb := connect(t, a, b)
		move(t, a, b, ca, cb, func() {
			a.host.SetMTU(1500)
			time.Sleep(2 * time.Second)
			a.host.SetMTU(9000)
		})
		require.NotZero(t, a.dev.WireStats().TooLarge)
		move(t, a, b, ca, cb, nil)
	})
}

// TestMTUStaysLow: what doesn't pass for longer ends the transfer, at both ends, and in the time that they are
// configured for.
func TestMTUStaysLow(t *testing.T) {
	t.Parallel()
	a, b := newEnds(t, false)
	// A second would do, but on a host with much else to do nothing may move for that long before the trouble begins.
	a.noProgress, b.noProgress = 5*units.Second, 5*units.Second
	ca, cb := connect(t, a, b)
	r, err := cb.StartRecv(b.mr, 0, size)
	require.NoError(t, err)
	s, err := ca.StartSend(a.mr, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	begun(t, r)
	a.host.SetMTU(1500)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit/4)
	defer cancel()
	sent, received := s.Wait(ctx), r.Wait(ctx)
	require.ErrorIs(t, errors.Join(sent, received), sdr.ErrNoProgress, "who notices first …")
	if !errors.Is(sent, sdr.ErrNoProgress) {
		require.ErrorIs(t, sent, sdr.ErrCompleted, "… tells the other")
	}
	if !errors.Is(received, sdr.ErrNoProgress) {
		require.ErrorIs(t, received, sdr.ErrAborted, "… tells the other")
	}
}

// TestBlackhole: for 0.3 s there is no way to the peer, of which segmentation offload remains unharmed.
func TestBlackhole(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newEnds(t, v6)
		ca, cb := connect(t, a, b)
		move(t, a, b, ca, cb, func() {
			heal := a.host.Blackhole(b.addr)
			time.Sleep(300 * time.Millisecond)
			heal()
		})
		w := a.dev.WireStats()
		require.NotZero(t, w.NetworkErrors)
		require.True(t, w.SegmentationOffload)
		trains := w.SendTrains
		move(t, a, b, ca, cb, nil)
		require.Greater(t, a.dev.WireStats().SendTrains, trains)
	})
}
