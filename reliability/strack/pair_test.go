// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	us = units.Microsecond
	ms = units.Millisecond
)

// A pair is two connected Conns over a simulated link, driven by hand.
type pair struct {
	testing.TB
	net  *sim.Network
	dev  [2]backend.Device
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

// newPair connects two sides. wrap, which may be nil, puts something before the second one's device.
func newPair(t testing.TB, link sim.Config, qp sdr.QPConfig, cfg reliability.Config, mk [2]func() scheme.Scheme, wrap func(backend.Device) backend.Device) *pair {
	t.Helper()
	p := &pair{TB: t}
	var err error
	p.net, err = sim.New(link)
	require.NoError(t, err)
	p.dev = [2]backend.Device{p.net.A(), p.net.B()}
	if wrap != nil {
		p.dev[1] = wrap(p.dev[1])
	}
	for i, dev := range p.dev {
		p.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(link.Seed), byte(i)})})
		require.NoError(t, err)
		cfg.Scheme = mk[i]()
		p.conn[i], err = reliability.NewConn(p.ctx[i], qp, cfg)
		require.NoError(t, err)
	}
	for i := range p.conn {
		require.NoError(t, p.conn[i].StartConnect(p.conn[1-i].Info()))
	}
	p.until(10*units.Second, func() bool {
		a, errA := p.conn[0].Connected()
		b, errB := p.conn[1].Connected()
		require.NoError(t, errA)
		require.NoError(t, errB)
		return a && b
	})
	t.Cleanup(func() {
		for _, x := range p.ctx {
			require.NoError(t, x.Close())
		}
	})
	return p
}

// until runs both sides until cond holds; it fails after d of virtual time.
func (p *pair) until(d units.Duration, cond func() bool) {
	p.Helper()
	limit := p.net.Now().Add(d)
	for stuck := 0; !cond(); stuck++ {
		now := p.net.Now()
		if stuck > 100_000 || now >= limit {
			p.Fatalf("not done at %v", units.Duration(now))
		}
		soonest := limit
		for _, x := range p.ctx {
			soonest = min(soonest, x.Progress(now))
		}
		p.net.Advance(max(min(soonest, p.net.Next()), now))
		if p.net.Now() != now {
			stuck = 0
		}
	}
}

// register makes memory on a side, of random content or none.
func (p *pair) register(side int, n units.Bytes, seed uint64) ([]byte, *sdr.MR) {
	p.Helper()
	b := make([]byte, n)
	if seed != 0 {
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	}
	mr, err := p.ctx[side].RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(p, err)
	return b, mr
}

func isDone(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// sized registers memory of n bytes without content at both sides.
func (p *pair) sized(n units.Bytes) (from, to *sdr.MR) {
	p.Helper()
	from, err := p.ctx[0].RegisterSize(n, 0)
	require.NoError(p, err)
	to, err = p.ctx[1].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(p, err)
	return from, to
}

// ended runs until both halves of a transfer have ended, which they must within d and without an error.
func (p *pair) ended(d units.Duration, s, r *reliability.Transfer) {
	p.Helper()
	p.until(d, func() bool { return isDone(s) && isDone(r) })
	require.NoError(p, s.Err())
	require.NoError(p, r.Err())
}

// changeWay gives the link another round trip; its rate is that of the data.
func (p *pair) changeWay(rate units.Rate, rtt units.Duration) {
	p.Helper()
	for d, l := range []sim.Link{{Rate: rate, Delay: rtt / 2}, {Delay: rtt / 2}} {
		require.NoError(p, p.net.SetLink(sim.Direction(d), l))
	}
}
