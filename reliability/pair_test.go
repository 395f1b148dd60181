// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const ms = units.Millisecond

// pair is two connected Conns on a simulated link, driven by hand.
type pair struct {
	t    testing.TB
	net  *sim.Network
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

// setup is what a test wants of a pair.
type setup struct {
	net    sim.Config
	qp     sdr.QPConfig
	conn   reliability.Config
	scheme func() scheme.Scheme
	wrap   func(side int, d backend.Device) backend.Device // may be nil
	adjust func(side int, c *reliability.Config)           // may be nil
}

func newSR(t testing.TB, mode sr.Mode) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := sr.New(sr.Config{Mode: mode})
		require.NoError(t, err)
		return s
	}
}

func newAdaptive(t testing.TB) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := adaptive.New(adaptive.Config{})
		require.NoError(t, err)
		return s
	}
}

func newPair(t testing.TB, s setup) *pair {
	t.Helper()
	p := &pair{t: t}
	var err error
	p.net, err = sim.New(s.net)
	require.NoError(t, err)
	for i, dev := range []backend.Device{p.net.A(), p.net.B()} {
		if s.wrap != nil {
			dev = s.wrap(i, dev)
		}
		key := [32]byte{byte(s.net.Seed), byte(i)}
		p.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8(key)})
		require.NoError(t, err)
		cfg := s.conn
		cfg.Scheme = s.scheme()
		if s.adjust != nil {
			s.adjust(i, &cfg)
		}
		p.conn[i], err = reliability.NewConn(p.ctx[i], s.qp, cfg)
		require.NoError(t, err)
	}
	p.connect()
	t.Cleanup(func() {
		for i := range 2 {
			require.NoError(t, p.ctx[i].Close())
		}
	})
	return p
}

// connect connects both sides.
func (p *pair) connect() {
	for i := range 2 {
		require.NoError(p.t, p.conn[i].StartConnect(p.conn[1-i].Info()))
	}
	p.until(10*units.Second, func() bool {
		a, errA := p.conn[0].Connected()
		b, errB := p.conn[1].Connected()
		require.NoError(p.t, errA)
		require.NoError(p.t, errB)
		return a && b
	})
}

// step runs both sides and moves the clock to the next event.
func (p *pair) step(limit units.Instant) {
	now := p.net.Now()
	soonest := limit
	for i := range 2 {
		soonest = min(soonest, p.ctx[i].Progress(now))
		if _, ok := p.t.(*testing.T); ok { // a benchmark would measure this
			require.True(p.t, p.conn[i].CountsAlike(), "side %d", i)
		}
	}
	soonest = min(soonest, p.net.Next())
	p.net.Advance(max(soonest, now))
}

// until runs the pair until cond holds; it fails after d of virtual time.
func (p *pair) until(d units.Duration, cond func() bool) {
	p.t.Helper()
	limit := p.net.Now().Add(d)
	for stuck := 0; !cond(); stuck++ {
		before := p.net.Now()
		p.step(limit)
		if p.net.Now() != before {
			stuck = 0
		}
		if stuck > 100000 {
			p.t.Fatalf("no time passes at %v", before)
		}
		if p.net.Now() >= limit && !cond() {
			p.t.Fatalf("not done after %v", d)
		}
	}
}

func (p *pair) run(d units.Duration) {
	limit := p.net.Now().Add(d)
	for p.net.Now() < limit {
		p.step(limit)
	}
}

// mr registers n bytes on side i, filled with random bytes when seed isn't 0.
func (p *pair) mr(i int, n units.Bytes, seed uint64) *sdr.MR {
	p.t.Helper()
	b := make([]byte, max(n, 1))
	if seed != 0 {
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	}
	m, err := p.ctx[i].RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(p.t, err)
	return m
}

func finished(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// timed moves n bytes of no content and returns how long it took.
func (p *pair) timed(n units.Bytes) units.Duration {
	p.t.Helper()
	src, err := p.ctx[0].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(p.t, err)
	dst, err := p.ctx[1].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(p.t, err)
	r, err := p.conn[1].StartRecv(dst, 0, n)
	require.NoError(p.t, err)
	p.run(50 * ms)
	begun := p.net.Now()
	s, err := p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
	require.NoError(p.t, err)
	p.until(200*units.Second, func() bool { return finished(s) })
	took := p.net.Now().Sub(begun)
	p.until(units.Second, func() bool { return finished(r) })
	require.NoError(p.t, s.Err())
	require.NoError(p.t, r.Err())
	return took
}
