// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A countedCQ counts how often its worker is woken, and polls.
type countedCQ struct {
	backend.CQ
	wakes atomic.Int64
	polls atomic.Int64
}

func (c *countedCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	c.polls.Add(1)
	return c.CQ.Poll(now, dst)
}

func (c *countedCQ) Wake() {
	c.wakes.Add(1)
	c.CQ.Wake()
}

// counted is a device that counts in cqs, by worker.
func counted(d backend.Device, cqs *[]*countedCQ) backend.Device {
	return cqtest.Wrap(d, func(q backend.CQ) backend.CQ {
		c := &countedCQ{CQ: q}
		*cqs = append(*cqs, c)
		return c
	})
}

// TestPacketsWakeHome: packets of a channel that another worker receives wake the worker at which their
// queue pair is at home. Else it finds out when something else wakes it, or up to 100 ms later. The
// messages are streams that never call End, so that no control frame follows them.
func TestPacketsWakeHome(t *testing.T) {
	s := &sockets{}
	var cqs []*countedCQ
	for i := range 2 {
		var err error
		s.dev[i], err = userroce.Open(userroce.Config{Addr: loopback(i), Workers: 1 + i})
		require.NoError(t, err)
		var dev backend.Device = s.dev[i]
		if i == 1 {
			dev = counted(dev, &cqs)
		}
		s.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Workers: 1 + i, Spin: -1})
		require.NoError(t, err)
	}
	t.Cleanup(func() { s.close(t) })
	q := s.connect(t, sdr.QPConfig{MTU: 1024, Channels: 2})
	src, dst := s.mr(t, 0, 1024), s.mr(t, 1, 1024)
	const each = 15
	var woken [2]int // times that a message on a channel woke the home, which is worker 0
	for range 2 * each {
		r, err := q[1].PostRecv(dst, 0, 1024)
		require.NoError(t, err)
		st, err := q[0].StartStream(src, 0, 1024, sdr.SendOptions{})
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond) // the clear-to-send arrives, and all falls asleep
		before := cqs[0].wakes.Load()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		require.NoError(t, st.Send(0, 1024))
		require.NoError(t, r.WaitArrived(ctx))
		cancel()
		if cqs[0].wakes.Load() > before {
			woken[q[0].HomeChannel(st, 0)]++
		}
		require.NoError(t, st.End())
		finish(t, r)
	}
	// A home that happens to be awake already isn't woken.
	t.Logf("of %d messages on each channel, %d woke the home on its own, %d on the other worker's", each, woken[0], woken[1])
	require.Greater(t, woken[1], each/2)
}

// TestPollsAmongManyQPs: a worker polls in between where many queue pairs have something to do, so that what they say doesn't keep it from
// hearing the answers.
func TestPollsAmongManyQPs(t *testing.T) {
	const qps = 40
	net, err := sim.New(sim.Config{})
	require.NoError(t, err)
	var cqs []*countedCQ
	c, err := sdr.NewEndpoint(counted(net.A(), &cqs), sdr.EndpointConfig{})
	require.NoError(t, err)
	for range qps {
		q, err := c.NewQP(small)
		require.NoError(t, err)
		q.Kick()
	}
	c.Progress(net.Now())
	require.GreaterOrEqual(t, cqs[0].polls.Load(), int64(qps/8))
	require.NoError(t, c.Close())
}

// TestDefaultWorkers: an Endpoint without a configured number starts no worker that can't receive, whatever the
// number of processors, and no more than sdr.DefaultWorkers. With one, the channels are at home at workers that receive.
func TestDefaultWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, sockets := range []int{0, 1, 2, 4, 8} {
		want := min(max(1, sockets), sdr.DefaultWorkers())
		dev, err := userroce.Open(userroce.Config{Addr: loopback(0), Port: userroce.AnyPort, Workers: sockets})
		require.NoError(t, err)
		wrapped, err := linkemu.Wrap(dev, linkemu.Config{RTT: units.Millisecond})
		require.NoError(t, err)
		for _, d := range []backend.Device{dev, wrapped} {
			c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{})
			require.NoError(t, err)
			require.Equal(t, want, c.Workers(), "%d receive sockets", sockets)
			require.NoError(t, c.Close())
		}
		require.NoError(t, wrapped.Close())
	}
}
