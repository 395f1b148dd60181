// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// stopped lets d pass without a look at one side, as if its process were stopped, while the other one goes on.
func (p *pair) stopped(side int, d units.Duration) {
	end := p.net.Now().Add(d)
	for p.net.Now() < end {
		now := p.net.Now()
		next := min(p.ctx[1-side].Progress(now), p.net.Next(), end)
		p.net.Advance(max(next, now))
	}
}

// slowly begins a transfer of units that go a unit each 20 ms, and lets the first of them arrive. Only one side has a limit of 100 ms.
func slowly(t *testing.T, limited int) (p *pair, s, r *reliability.Transfer) {
	const n = 20_000
	p = newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Seed: 1, Link: sim.Link{Delay: 100 * units.Microsecond}}, qp: sdr.QPConfig{MTU: 1024},
		conn: reliability.Config{Rate: units.Rate(1024 * 8 * 50)}, scheme: newSR(t, sr.RTO),
		adjust: func(side int, c *reliability.Config) {
			if side == limited {
				c.NoProgress = 100 * ms
			}
		},
	})
	s, r = p.begin(p.mr(0, n, 1), n, p.mr(1, n, 0), n)
	p.run(50 * ms)
	return p, s, r
}

// TestStoppedSide: an end that was stopped for longer than a transfer may stand still goes on with it when it is continued; so it does after it was
// stopped again and again. A peer that was stopped is none of its business: for that the limit is there.
func TestStoppedSide(t *testing.T) {
	for side, name := range []string{"sender", "receiver"} {
		t.Run(name, func(t *testing.T) {
			p, s, r := slowly(t, side)
			for range 5 {
				p.stopped(side, units.Second)
				p.run(30 * ms)
			}
			p.until(5*units.Second, func() bool { return finished(s) && finished(r) })
			require.NoError(t, s.Err())
			require.NoError(t, r.Err())
		})
		t.Run(name+" whose peer is stopped", func(t *testing.T) {
			p, s, r := slowly(t, side)
			begun := p.net.Now()
			p.stopped(1-side, units.Second)
			own := []*reliability.Transfer{s, r}[side]
			require.True(t, finished(own))
			require.ErrorIs(t, own.Err(), sdr.ErrNoProgress)
			require.Less(t, own.Elapsed(), p.net.Now().Sub(begun))
		})
	}
}

// A stoppedCQ stops its worker when it is told to.
type stoppedCQ struct {
	backend.CQ
	stop *atomic.Bool
}

func (q *stoppedCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	if q.stop.Swap(false) {
		time.Sleep(time.Second)
	}
	return q.CQ.Poll(now, dst)
}

// TestStoppedWorker: the same with a worker of an Endpoint's own, which sleeps for 100 ms at a time.
func TestStoppedWorker(t *testing.T) {
	var stop atomic.Bool
	e := overEndpoints(t, linkemu.Config{}, sdr.EndpointConfig{Workers: 1}, reliability.Config{NoProgress: 500 * ms, Rate: 200 * units.Mbit}, newSR(t, sr.RTO),
		func(side int, d backend.Device) backend.Device {
			if side == 1 {
				return d
			}
			return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return &stoppedCQ{q, &stop} })
		})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	src := e.alloc(t, 0, 64)
	s, err := e.conn[0].StartSend(src, 0, 64, reliability.SendOptions{}) // the receiver posts nothing yet
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond)
	stop.Store(true)
	e.conn[0].QP().Kick()
	time.Sleep(1050 * time.Millisecond) // nothing waits for it when it is continued
	dst := e.alloc(t, 1, 64)
	r, err := e.conn[1].StartRecv(dst, 0, 64)
	require.NoError(t, err)
	require.NoError(t, s.Wait(ctx))
	require.NoError(t, r.Wait(ctx))
}
