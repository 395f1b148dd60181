// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A caller is a driver that runs in its Progress what it is sent.
type caller struct {
	mu   sync.Mutex // one call of do at a time
	next chan func(*sdr.Port)
}

func newCaller() *caller { return &caller{next: make(chan func(*sdr.Port), 1)} }

func (c *caller) Progress(p *sdr.Port) units.Instant {
	select {
	case f := <-c.next:
		f(p)
	default:
	}
	return units.Never
}

func (c *caller) Failed(error) {}

// do runs f in the Progress of q, whose driver c is. It reports false when q has failed or was closed.
func (c *caller) do(q *sdr.QP, f func(*sdr.Port)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := make(chan struct{})
	c.next <- func(p *sdr.Port) { defer close(done); f(p) }
	for {
		q.Kick()
		select {
		case <-done:
			return true
		case <-time.After(100 * time.Microsecond):
			if q.Err() == nil {
				continue
			}
			select {
			case <-c.next: // nobody will
				return false
			default:
			}
			<-done
			return true
		}
	}
}

// withCaller connects two queue pairs, of which that of side 1 has the driver.
func (s *sockets) withCaller(t *testing.T, cfg sdr.QPConfig) (q [2]*sdr.QP, c *caller) {
	t.Helper()
	c = newCaller()
	for i := range 2 {
		cfg.Driver = [2]sdr.Driver{nil, c}[i]
		var err error
		q[i], err = s.ctx[i].NewQP(cfg)
		require.NoError(t, err)
	}
	for i := range 2 {
		require.NoError(t, q[i].StartConnect(q[1-i].Info()))
	}
	eventually(t, "connected", func() bool {
		a, errA := q[0].Connected()
		b, errB := q[1].Connected()
		require.NoError(t, errA)
		require.NoError(t, errB)
		return a && b
	})
	return q, c
}

// panicOf is what f panics with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// TestPortIsForProgressOnly: in Progress the queue pair is locked, so that a method that locks would wait for
// ever, and outside a Port guards nothing. Both are said at once.
func TestPortIsForProgressOnly(t *testing.T) {
	s := newSockets(t, 1)
	q, c := s.withCaller(t, sdr.QPConfig{})
	var port *sdr.Port
	require.True(t, c.do(q[1], func(p *sdr.Port) {
		port = p
		r, err := p.PostRecv(s.mr(t, 1, 4096), 0, 4096, sdr.RecvOptions{})
		require.NoError(t, err)
		require.Positive(t, p.MaxScheme())
		require.Equal(t, q[1].Config().SendDepth, p.Room(1, 0))
		for name, f := range map[string]func(){
			"QP.Stats": func() { q[1].Stats() }, "QP.Err": func() { _ = q[1].Err() },
			"QP.Fail": func() { q[1].Fail(sdr.ErrPeerDead) }, "RecvHandle.Complete": func() { _ = r.Complete() },
		} {
			require.Contains(t, panicOf(f), "called in Driver.Progress; use the Port", name)
		}
		for name, f := range map[string]func(){
			"QP.Kick": q[1].Kick, "QP.Config": func() { q[1].Config() }, "RecvHandle.Done": func() { r.Done() },
			"Bitmap.AllSet": func() { _ = r.Bitmap().AllSet() }, "another QP's Stats": func() { q[0].Stats() },
		} {
			require.NotPanics(t, f, name)
		}
		p.Complete(r)
	}))
	require.True(t, c.do(q[1], func(p *sdr.Port) { p.Fail(sdr.ErrPeerDead) }))
	require.ErrorIs(t, q[1].Err(), sdr.ErrPeerDead, "what Port has for QP.Fail")
	require.NoError(t, q[1].Close()) // do returns within the call of Progress, and the worker makes others
	for name, f := range map[string]func(){
		"MaxScheme": func() { port.MaxScheme() }, "HomeChannel": func() { port.HomeChannel(sdr.SendStream{}, 0) },
		"RecvChannel": func() { port.RecvChannel(sdr.RecvHandle{}, 0) }, "End": func() { port.End(sdr.SendStream{}) },
	} {
		require.Equal(t, "sdr: a Port was used outside Driver.Progress", panicOf(f), name)
	}
}

// TestPlaceOnCompletedMessage: a driver puts packets in place while the application completes
// the message and the next one is posted, which gets the same pooled bitmap. No bit of that one may be set.
func TestPlaceOnCompletedMessage(t *testing.T) {
	const packets = 1 << 16
	s := newSockets(t, 1)
	q, c := s.withCaller(t, sdr.QPConfig{MTU: 256, Chunk: 256})
	dst := s.mr(t, 1, packets*256)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // of all rounds: each is a fraction of a second, on a busy machine one or two
	defer cancel()
	rounds := 200
	if race.Enabled {
		rounds = 40
	}
	post := func(length units.Bytes) (r sdr.RecvHandle) {
		require.True(t, c.do(q[1], func(p *sdr.Port) {
			var err error
			r, err = p.PostRecv(dst, 0, length, sdr.RecvOptions{})
			require.NoError(t, err)
		}))
		return r
	}
	for n := range rounds {
		r := post(dst.Len())
		placed := make(chan struct{})
		go func() {
			defer close(placed)
			c.do(q[1], func(p *sdr.Port) { _ = p.Place(r, 0, packets) })
		}()
		for range n % 8 { // somewhere in between
			runtime.Gosched()
		}
		require.NoError(t, r.Complete())
		require.NoError(t, r.Wait(ctx))
		<-placed
		next := post(dst.Len())
		m, err := next.Packets()
		require.NoError(t, err)
		set, err := m.Count(), m.Err()
		require.NoError(t, err)
		require.Zero(t, set, "round %d: bits of a message that was never sent", n)
		require.True(t, c.do(q[1], func(p *sdr.Port) { require.ErrorIs(t, p.Place(r, 0, packets), sdr.ErrCompleted) }))
		set, err = m.Count(), m.Err()
		require.NoError(t, err)
		require.Zero(t, set, "round %d", n)
		finish(t, next)
	}
	r := post(1000)
	require.True(t, c.do(q[1], func(p *sdr.Port) {
		for _, bad := range [][2]int{{-1, 1}, {0, 5}, {4, 1}, {0, -1}, {1 << 62, 1 << 62}} {
			require.ErrorIs(t, p.Place(r, bad[0], bad[1]), sdr.ErrArgument)
		}
		require.NoError(t, p.Place(r, 0, 4))
	}))
	finish(t, r)
}
