// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const ms = units.Millisecond

// pair is two connected QPs on a simulated link, driven by hand.
type pair struct {
	t    testing.TB
	net  *sim.Network
	ctx  [2]*sdr.Endpoint
	qp   [2]*sdr.QP
	next [2]units.Instant
}

func newPair(t testing.TB, sc sim.Config, qc sdr.QPConfig) *pair {
	t.Helper()
	p := newUnconnected(t, sc, qc)
	p.connect()
	return p
}

func (p *pair) connect() {
	t := p.t
	t.Helper()
	for i := range 2 {
		require.NoError(t, p.qp[i].StartConnect(p.qp[1-i].Info()))
	}
	p.until(10*units.Second, func() bool {
		a, errA := p.qp[0].Connected()
		b, errB := p.qp[1].Connected()
		require.NoError(t, errA)
		require.NoError(t, errB)
		return a && b
	})
}

// drive connects queue pairs that have these drivers.
func (p *pair) drive(cfg sdr.QPConfig, drivers ...sdr.Driver) {
	p.t.Helper()
	for i, d := range drivers {
		cfg.Driver = d
		var err error
		p.qp[i], err = p.ctx[i].NewQP(cfg)
		require.NoError(p.t, err)
	}
	p.connect()
}

func newUnconnected(t testing.TB, sc sim.Config, qc sdr.QPConfig) *pair {
	t.Helper()
	return newWrapped(t, sc, qc, func(_ int, d backend.Device) backend.Device { return d })
}

// newWrapped is newUnconnected on devices that are wrapped.
func newWrapped(t testing.TB, sc sim.Config, qc sdr.QPConfig, wrap func(end int, d backend.Device) backend.Device) *pair {
	t.Helper()
	net, err := sim.New(sc)
	require.NoError(t, err)
	p := &pair{t: t, net: net}
	var key [32]byte
	key[0] = byte(sc.Seed)
	for i, dev := range []*sim.Device{net.A(), net.B()} {
		key[1] = byte(i)
		p.ctx[i], err = sdr.NewEndpoint(wrap(i, dev), sdr.EndpointConfig{Workers: sdr.Manual, Rand: rand.NewChaCha8(key)})
		require.NoError(t, err)
		p.qp[i], err = p.ctx[i].NewQP(qc)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for i := range 2 {
			require.NoError(t, p.ctx[i].Close())
		}
	})
	return p
}

// step runs both sides and moves the clock to the next event.
func (p *pair) step(limit units.Instant) {
	now := p.net.Now()
	soonest := units.Never
	for i := range 2 {
		p.next[i] = p.ctx[i].Progress(now)
		soonest = min(soonest, p.next[i])
	}
	soonest = min(soonest, p.net.Next()) // also of what either has just sent
	p.net.Advance(min(max(soonest, now), limit))
}

// until runs the pair until cond holds; it fails after d of virtual time.
func (p *pair) until(d units.Duration, cond func() bool) {
	p.t.Helper()
	limit := p.net.Now().Add(d)
	for stuck := 0; !cond(); {
		before := p.net.Now()
		p.step(limit)
		if p.net.Now() == before {
			stuck++
		} else {
			stuck = 0
		}
		if stuck > 100000 {
			p.t.Fatalf("no time passes at %v", before)
		}
		if p.net.Now() >= limit {
			p.t.Fatalf("not done after %v", d)
		}
	}
}

// run lets d of virtual time pass.
func (p *pair) run(d units.Duration) {
	limit := p.net.Now().Add(d)
	for p.net.Now() < limit {
		p.step(limit)
	}
}

// mr registers n bytes on side i, filled with a pattern when it is a source.
func (p *pair) mr(i int, n units.Bytes, source bool) *sdr.MR {
	p.t.Helper()
	b := make([]byte, n)
	if source {
		for j := range b {
			b[j] = byte(j>>8) ^ byte(j*7)
		}
	}
	m, err := p.ctx[i].RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(p.t, err)
	return m
}
