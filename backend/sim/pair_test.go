// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// An end is one device with a connected UC queue pair, a UD queue pair, one CQ
// for all, and memory.
type side struct {
	dev    *Device
	cq     backend.CQ
	uc, ud backend.QP
	table  backend.Table
	mem    backend.Region
	to     backend.AddressHandle // the other side's UD queue pair
	got    []backend.Completion
	frames []string
}

type pair struct {
	t    testing.TB
	net  *Network
	a, b *side
}

const (
	testMTU   = 4096
	testMax   = units.MiB
	testSlots = 16
)

func newPair(t testing.TB, cfg Config) *pair { return newPairDepth(t, cfg, 64, 64) }

func newPairDepth(t testing.TB, cfg Config, send, recv int) *pair {
	t.Helper()
	n, err := New(cfg)
	require.NoError(t, err)
	p := &pair{t: t, net: n, a: newSide(t, n.A(), send, recv), b: newSide(t, n.B(), send, recv)}
	connect(t, p.a, p.b)
	connect(t, p.b, p.a)
	return p
}

func newSide(t testing.TB, d *Device, send, recv int) *side {
	t.Helper()
	e := &side{dev: d}
	var err error
	e.cq, err = d.NewCQ(backend.CQConfig{Entries: 1024, Workers: 1})
	require.NoError(t, err)
	e.table, err = d.NewTable(backend.TableConfig{Slots: testSlots, Generations: 4, MaxMessage: testMax})
	require.NoError(t, err)
	c := backend.QPConfig{
		Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, Cookie: 7,
		MTU: testMTU, SendDepth: send, RecvDepth: recv,
	}
	e.uc, err = d.NewQP(c)
	require.NoError(t, err)
	c.Type, c.Cookie, c.Table = backend.UD, 9, nil
	e.ud, err = d.NewQP(c)
	require.NoError(t, err)
	e.mem, err = d.Register(make([]byte, testMax), backend.AccessRemoteWrite)
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

// run advances until nothing is in flight, polling both sides after each step.
func (p *pair) run() {
	p.t.Helper()
	for p.net.Next() != units.Never {
		p.net.Advance(p.net.Next())
		p.poll(p.a)
		p.poll(p.b)
	}
}

func (p *pair) poll(e *side) {
	p.t.Helper()
	var dst [8]backend.Completion
	for {
		n, err := e.cq.Poll(p.net.Now(), dst[:])
		require.NoError(p.t, err)
		for i := range dst[:n] {
			if dst[i].Kind == backend.KindDatagram {
				e.frames = append(e.frames, string(e.cq.Datagram(&dst[i])))
			}
		}
		e.got = append(e.got, dst[:n]...)
		if n < len(dst) {
			return
		}
	}
}

// expose lets the peer write message n into all of e's memory.
func (e *side) expose(t testing.TB, n uint64) (rkey uint32, va uint64) {
	t.Helper()
	rkey, va, err := e.table.Expose(n, e.mem, backend.Range{Length: testMax})
	require.NoError(t, err)
	return rkey, va
}

// post posts writes and requires that all are taken.
func (p *pair) post(e *side, w ...backend.Write) {
	p.t.Helper()
	n, err := e.uc.PostWrites(p.net.Now(), w)
	require.NoError(p.t, err)
	require.Equal(p.t, len(w), n)
}

func (p *pair) send(e *side, s string) {
	p.t.Helper()
	n, err := e.ud.PostDatagrams(p.net.Now(), []backend.Datagram{{To: e.to, Data: []byte(s)}})
	require.NoError(p.t, err)
	require.Equal(p.t, 1, n)
}

// imms are the immediates of the writes that e has received.
func (e *side) imms() []uint32 {
	var v []uint32
	for _, c := range e.got {
		if c.Kind == backend.KindWrite {
			v = append(v, c.Imm)
		}
	}
	return v
}
