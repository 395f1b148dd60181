// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/units"
)

// An end is a wrapped device with a connected UC queue pair, a UD queue pair, one
// CQ for all, and memory of which the peer may write all as message 0.
type side struct {
	dev    *Device
	cq     backend.CQ
	uc, ud backend.QP
	mem    backend.Region
	rkey   uint32
	va     uint64
	to     backend.AddressHandle
	got    []backend.Completion
	times  []units.Instant // of got
	frames []string
	dst    [16]backend.Completion
}

const (
	testMTU  = 4096
	testSize = units.MiB
)

func newSide(t testing.TB, dev backend.Device, cfg Config, depth int) *side {
	t.Helper()
	e := new(side)
	var err error
	e.dev, err = Wrap(dev, cfg)
	require.NoError(t, err)
	e.cq, err = e.dev.NewCQ(backend.CQConfig{Entries: 4 * depth, Workers: 1})
	require.NoError(t, err)
	table, err := e.dev.NewTable(backend.TableConfig{Slots: 16, Generations: 4, MaxMessage: testSize})
	require.NoError(t, err)
	c := backend.QPConfig{
		Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: table, Cookie: 7,
		MTU: testMTU, SendDepth: depth, RecvDepth: depth,
	}
	e.uc, err = e.dev.NewQP(c)
	require.NoError(t, err)
	c.Type, c.Cookie, c.Table = backend.UD, 9, nil
	e.ud, err = e.dev.NewQP(c)
	require.NoError(t, err)
	e.mem, err = e.dev.Register(make([]byte, testSize), backend.AccessRemoteWrite)
	require.NoError(t, err)
	e.rkey, e.va, err = table.Expose(0, e.mem, backend.Range{Length: testSize})
	require.NoError(t, err)
	return e
}

func connect(t testing.TB, e, other *side) {
	t.Helper()
	require.NoError(t, e.uc.Connect(other.uc.Info()))
	var err error
	e.to, err = e.dev.OpenAddress(other.ud.Info())
	require.NoError(t, err)
}

// poll collects what the end's CQ reports at now.
func (e *side) poll(t testing.TB, now units.Instant) {
	t.Helper()
	n, err := e.cq.Poll(now, e.dst[:])
	require.NoError(t, err)
	for i := range e.dst[:n] {
		if e.dst[i].Kind == backend.KindDatagram {
			e.frames = append(e.frames, string(e.cq.Datagram(&e.dst[i])))
		}
		e.got = append(e.got, e.dst[i])
		e.times = append(e.times, now)
	}
}

func (e *side) imms() (v []uint32) {
	for _, c := range e.got {
		if c.Kind == backend.KindWrite {
			v = append(v, c.Imm)
		}
	}
	return v
}

func (e *side) sent() (v []uint64) {
	for _, c := range e.got {
		if c.Kind == backend.KindSent {
			v = append(v, c.WRID)
		}
	}
	return v
}

// A virtualPair is two sides over backend/sim.
type virtualPair struct {
	t    testing.TB
	net  *sim.Network
	a, b *side
}

func newVirtualPair(t testing.TB, s sim.Config, cfg Config, depth int) *virtualPair {
	t.Helper()
	n, err := sim.New(s)
	require.NoError(t, err)
	p := &virtualPair{t: t, net: n, a: newSide(t, n.A(), cfg, depth)}
	cfg.Seed++
	p.b = newSide(t, n.B(), cfg, depth)
	connect(t, p.a, p.b)
	connect(t, p.b, p.a)
	return p
}

func (p *virtualPair) next() units.Instant {
	return min(p.net.Next(), p.a.cq.Next(), p.b.cq.Next())
}

// run goes on until nothing is left to happen.
func (p *virtualPair) run() { p.runUntil(units.Never) }

func (p *virtualPair) runUntil(until units.Instant) {
	p.t.Helper()
	for {
		next := p.next()
		if next == units.Never || next > until {
			break
		}
		p.net.Advance(max(next, p.net.Now()))
		p.a.poll(p.t, p.net.Now())
		p.b.poll(p.t, p.net.Now())
	}
}

// write posts a signalled write of n bytes for each i below count, with i as WRID
// and immediate, as room comes.
func (p *virtualPair) write(count, n int) {
	p.t.Helper()
	w := make([]backend.Write, count)
	for i := range w {
		w[i] = backend.Write{
			WRID: uint64(i), VA: p.b.va, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: uint32(n), Imm: uint32(i), Signaled: true,
		}
	}
	for len(w) > 0 {
		k, err := p.a.uc.PostWrites(p.net.Now(), w)
		require.NoError(p.t, err)
		if w = w[k:]; k == 0 {
			p.net.Advance(max(p.next(), p.net.Now()))
			p.a.poll(p.t, p.net.Now())
			p.b.poll(p.t, p.net.Now())
		}
	}
}

func (p *virtualPair) send(s ...string) {
	p.t.Helper()
	for _, s := range s {
		n, err := p.a.ud.PostDatagrams(p.net.Now(), []backend.Datagram{{To: p.a.to, Data: []byte(s)}})
		require.NoError(p.t, err)
		require.Equal(p.t, 1, n)
	}
}
