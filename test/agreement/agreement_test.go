// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Package agreement compares the completion-time model with the stack itself: the
// real Conn, cores and control channel, packet by packet in virtual time.
package agreement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	rate = 400 * units.Gbit
	rtt  = 25 * units.Millisecond
	unit = 64 * units.KiB
)

// A contender is a scheme of the stack and the model's idea of it.
type contender struct {
	name  string
	make  func() (scheme.Scheme, error)
	model model.Scheme
}

var contenders = []contender{
	{"sr", func() (scheme.Scheme, error) { return sr.New(sr.Config{}) }, model.SR{Alpha: 2}},
	{"sr-nack", func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) }, model.SR{Nack: true, Alpha: 1.0 / 32}},
	{"ec-mds", func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) },
		model.EC{Code: model.MDS, K: 32, M: 8, Alpha: 2, Beta: 0.5}},
	{"ec-xor", func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8}) },
		model.EC{Code: model.XOR, K: 32, M: 8, Alpha: 2, Beta: 0.5}},
	{"adaptive", func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) }, model.Adaptive{}},
}

// TestModelAgreesWithStack: averages within 5 %, besides twice the standard error
// of the measured one. The drop rate is per unit of one 64 KiB packet.
func TestModelAgreesWithStack(t *testing.T) {
	for _, c := range contenders {
		for _, p := range []float64{0, 1e-3, 1e-2} {
			for size, n := range map[units.Bytes]int{units.MiB: 400, 16 * units.MiB: 200, 128 * units.MiB: 60} {
				t.Run(fmt.Sprintf("%s, %g per unit, %v", c.name, p, size), func(t *testing.T) {
					t.Parallel()
					compare(t, c, sim.Loss{Drop: p}, size, n)
				})
			}
		}
	}
}

// TestModelAgreesInBursts is the same where a burst of losses lasts as long as eight units on average.
func TestModelAgreesInBursts(t *testing.T) {
	for _, c := range contenders {
		for size, n := range map[units.Bytes]int{units.MiB: 400, 16 * units.MiB: 200, 128 * units.MiB: 60} {
			t.Run(fmt.Sprintf("%s, %v", c.name, size), func(t *testing.T) {
				t.Parallel()
				compare(t, c, sim.Loss{Drop: 1e-2, BurstTime: rate.Time(8 * unit)}, size, n)
			})
		}
	}
}

func compare(t *testing.T, c contender, loss sim.Loss, size units.Bytes, n int) {
	mean, stderr := measure(t, c.make, loss, size, n)
	predicted, err := model.Simulate(c.model, model.Transfer{
		Rate: rate, RTT: rtt, Size: size, Unit: unit, Drop: model.UnitDrop(loss.Drop), Control: model.PacketDrop(loss.Drop),
		Burst: float64(loss.BurstTime) / float64(rate.Time(unit)),
	}, model.Options{Samples: 20_000, Seed: 1})
	require.NoError(t, err)
	want := predicted.Mean().Value.Seconds()
	tolerance := 0.05*want + 2*stderr
	t.Logf("measured %.3f ms ± %.3f, model %.3f ms", mean*1e3, stderr*1e3, want*1e3)
	require.InDelta(t, want, mean, tolerance)
}

// measure returns the average completion time of n transfers in seconds and its
// standard error: from the post, with the receive posted and its CTS at the
// sender, to the final acknowledgement.
func measure(t *testing.T, makeScheme func() (scheme.Scheme, error), loss sim.Loss, size units.Bytes, n int) (mean, stderr float64) {
	w := newWorld(t, makeScheme, loss)
	src, dst := w.memory(0, size), w.memory(1, size)
	const warmUp = 20
	const settle = 8 * rtt // a CTS that is lost is repeated after 1, 3 and 7
	var sum, squares float64
	for i := range warmUp + n {
		r, err := w.conn[1].StartRecv(dst, 0, size)
		require.NoError(t, err)
		w.until(w.net.Now().Add(settle), func() bool { return false })
		begun := w.net.Now()
		s, err := w.conn[0].StartSend(src, 0, size, reliability.SendOptions{})
		require.NoError(t, err)
		w.until(units.Never, func() bool { return ended(s) })
		d := w.net.Now().Sub(begun).Seconds()
		w.until(units.Never, func() bool { return ended(r) })
		require.NoError(t, s.Err())
		require.NoError(t, r.Err())
		if i >= warmUp {
			sum += d
			squares += d * d
		}
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(max(0, squares/float64(n)-mean*mean) / float64(n))
}

// world is two Conns in virtual time.
type world struct {
	t    *testing.T
	net  *sim.Network
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

func newWorld(t *testing.T, makeScheme func() (scheme.Scheme, error), loss sim.Loss) *world {
	w := &world{t: t}
	var err error
	w.net, err = sim.New(sim.Config{Rate: rate, Seed: 1, Link: sim.Link{Delay: rtt / 2, Loss: loss}})
	require.NoError(t, err)
	for i, dev := range []*sim.Device{w.net.A(), w.net.B()} {
		w.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(i)})})
		require.NoError(t, err)
		s, err := makeScheme()
		require.NoError(t, err)
		w.conn[i], err = reliability.NewConn(w.ctx[i], sdr.QPConfig{MTU: unit, Chunk: unit, SendDepth: 1 << 16},
			reliability.Config{Scheme: s, Rate: rate, ParityPool: units.GiB})
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for i := range 2 {
			require.NoError(t, w.ctx[i].Close())
		}
	})
	for i := range 2 {
		require.NoError(t, w.conn[i].StartConnect(w.conn[1-i].Info()))
	}
	w.until(units.Never, func() bool {
		a, errA := w.conn[0].Connected()
		b, errB := w.conn[1].Connected()
		require.NoError(t, errA)
		require.NoError(t, errB)
		return a && b
	})
	return w
}

func (w *world) memory(i int, n units.Bytes) *sdr.MR {
	m, err := w.ctx[i].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(w.t, err)
	return m
}

// until runs both ends until cond holds or limit is reached.
func (w *world) until(limit units.Instant, cond func() bool) {
	for !cond() && w.net.Now() < limit {
		now := w.net.Now()
		next := min(limit, w.ctx[0].Progress(now), w.ctx[1].Progress(now), w.net.Next())
		require.Less(w.t, next, units.Never, "nothing is left to happen")
		w.net.Advance(max(next, now))
	}
}

func ended(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}
