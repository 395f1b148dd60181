// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A postCounter counts the calls in which writes are posted.
type postCounter struct {
	backend.Device
	posts atomic.Int64
}

func (d *postCounter) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := d.Device.NewQP(c)
	return &countedQP{q, d}, err
}

type countedQP struct {
	backend.QP
	d *postCounter
}

func (q *countedQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	q.d.posts.Add(1)
	return q.QP.PostWrites(now, w)
}

// TestStartedTogetherLeaveTogether: of many small transfers under way several end at once, and those that are started in their place
// go to the device together.
func TestStartedTogetherLeaveTogether(t *testing.T) {
	d := new(postCounter)
	e := overWatchedSockets(t, linkemu.Config{}, reliability.Config{}, newSR(t, sr.RTO), func(side int, dev backend.Device) backend.Device {
		if side == 1 {
			return dev
		}
		d.Device = dev
		return d
	})
	c := newConvoy(t, e, 4*units.KiB, 16)
	const n = 1000
	checks := e.ctx[1].Stats().Repairs // of connecting, which sends its packet on other channels, too, until an answer comes
	best := 1.0
	for range 40 { // by chance, and on a busy machine for seconds on end, they end one by one
		before := d.posts.Load()
		c.run(t, n)
		if best = min(best, float64(d.posts.Load()-before)/n); best < 0.4 {
			break
		}
	}
	t.Logf("%.2f posts a transfer", best)
	require.Less(t, best, 0.5)
	// Both ends agree on which channel a small message is at home: nothing but repeats is taken for a repair, and a repeat that came too late
	// for its message isn't, either.
	require.LessOrEqual(t, e.ctx[1].Stats().Repairs-checks, e.conn[0].Stats().Units.Retransmitted)
}

// TestHalfLeavesTogether: while few are under way, half of them leave together, so that the receiver has something to do while the sender gathers
// the others.
func TestHalfLeavesTogether(t *testing.T) {
	for underWay, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 8: 4, 16: 8, 64: 8} {
		p := newPair(t, setup{
			net:    sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 25 * units.Microsecond}},
			qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
			scheme: newSR(t, sr.RTO),
		})
		from, to := p.mr(0, 4096, 1), p.mr(1, 4096, 2)
		start := func() *reliability.Transfer {
			_, err := p.conn[1].StartRecv(to, 0, 4096)
			require.NoError(t, err)
			s, err := p.conn[0].StartSend(from, 0, 4096, reliability.SendOptions{})
			require.NoError(t, err)
			return s
		}
		var all []*reliability.Transfer
		for range underWay {
			all = append(all, start())
		}
		p.until(units.Second, func() bool { return p.conn[0].Uncollected() == int64(underWay) })
		left := 0
		for i, s := range all {
			require.NoError(t, s.Err())
			start()
			if p.conn[0].Deferred() == 0 {
				require.Equal(t, want, i+1-left, "leave together of %d under way", underWay)
				left = i + 1
			}
		}
		require.Equal(t, underWay, left)
	}
}

// A pollCounter is a scheme whose senders and receivers count how often they are polled.
type pollCounter struct {
	scheme.Scheme
	sends, recvs *int
}

type polledSender struct {
	scheme.Sender
	polls *int
}

type polledReceiver struct {
	scheme.Receiver
	polls *int
}

func (s pollCounter) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	core, err := s.Scheme.NewSender(t, env)
	return polledSender{core, s.sends}, err
}

func (s pollCounter) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	core, err := s.Scheme.NewReceiver(t, env)
	return polledReceiver{core, s.recvs}, err
}

func (s polledSender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	*s.polls++
	return s.Sender.Poll(now, out)
}

func (s polledReceiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	*s.polls++
	return s.Receiver.Poll(now, v, out)
}

// TestWhoWaitsIsNotPolled: a transfer that has sent everything and waits for its acknowledgement costs nothing while others send, and one that waits
// for packets nothing while those of others come.
func TestWhoWaitsIsNotPolled(t *testing.T) {
	per := func(size units.Bytes, depth int) (sends, recvs float64) {
		var polled [2]int
		p := newPair(t, setup{
			net:    sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 25 * units.Microsecond}},
			qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
			scheme: func() scheme.Scheme { return pollCounter{newSR(t, sr.RTO)(), &polled[0], &polled[1]} },
		})
		s := p.stream(0, size, depth)
		p.until(units.Second, func() bool { s.turn(); return s.finished >= 500 })
		return float64(polled[0]) / float64(s.finished), float64(polled[1]) / float64(s.finished)
	}
	few, _ := per(4096, 1)
	many, _ := per(4096, 64)
	t.Logf("a transfer is polled %.1f times alone, %.1f times among 64", few, many)
	require.Less(t, many, 5*few)

	_, few = per(64*units.KiB, 1)
	_, many = per(64*units.KiB, 64)
	t.Logf("a receive of 16 packets is polled %.1f times alone, %.1f times among 64", few, many)
	require.Less(t, many, 5*few)
}
