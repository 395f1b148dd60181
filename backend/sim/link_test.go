// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// stream sends count writes of n bytes from a to b on the first channel.
func (p *pair) stream(count int, n uint32) {
	p.t.Helper()
	rkey, va := p.b.expose(p.t, 0)
	for i := range count {
		w := []backend.Write{{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: n, Imm: uint32(i)}}
		for {
			k, err := p.a.uc.PostWrites(p.net.Now(), w)
			require.NoError(p.t, err)
			if k == 1 {
				break
			}
			p.net.Advance(p.a.cq.Next())
			p.poll(p.a)
			p.poll(p.b)
		}
	}
	p.run()
}

// A bottleneck slower than the NIC drops what its queue can't hold, marks before
// it does, and passes the rest at its own rate.
func TestBottleneck(t *testing.T) {
	p := newPair(t, Config{
		Rate: 10 * units.Gbit,
		Link: Link{Rate: 9 * units.Gbit, Queue: 20 * units.KiB, MarkAbove: 10 * units.KiB},
	})
	const count, size = 2000, 1000
	p.stream(count, size)
	s := p.a.dev.Stats()
	require.Equal(t, uint64(len(p.b.imms())), count-s.Drops[backend.DropEmulatedQueue])
	require.InDelta(t, 0.9*count, len(p.b.imms()), 25, "it carries nine tenths, and what fits the queue")
	require.Greater(t, p.b.dev.Marked(), uint64(count/2))
	require.True(t, slices.IsSorted(p.b.imms()))
}

func TestLineRate(t *testing.T) {
	p := newPair(t, Config{Rate: 400 * units.Gbit, HeaderBytes: 64, Link: Link{Delay: 12500 * units.Microsecond}})
	p.stream(1000, 4096)
	require.Equal(t, units.Instant(1000*(4096+64)*20/1000).Add(12500*units.Microsecond), p.net.Now())
}

// Packets of different channels overtake each other whatever the depth of reordering, those of one channel never do.
func TestChannelsWithDifferentDelays(t *testing.T) {
	p := newPair(t, Config{Rate: units.Gbit, Link: Link{ChannelDelay: []units.Duration{10 * units.Millisecond, 0}}})
	second := func(e *side) backend.QP {
		q, err := e.dev.NewQP(backend.QPConfig{
			Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, MTU: testMTU, Channel: 1, SendDepth: 64,
		})
		require.NoError(t, err)
		return q
	}
	qa, qb := second(p.a), second(p.b)
	require.NoError(t, qa.Connect(qb.Info()))
	require.NoError(t, qb.Connect(qa.Info()))
	rkey, va := p.b.expose(t, 0)
	for i := range uint32(20) {
		w := []backend.Write{{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 100, Imm: i}}
		q := []backend.QP{p.a.uc, qa}[i%2]
		_, err := q.PostWrites(0, w)
		require.NoError(t, err)
	}
	p.run()
	require.Equal(t, []uint32{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, p.b.imms())
}

func TestControlLossIsItsOwn(t *testing.T) {
	p := newPair(t, Config{ControlLoss: &Loss{Drop: 1}})
	p.stream(10, 1)
	p.send(p.a, "lost")
	p.run()
	require.Len(t, p.b.imms(), 10)
	require.Empty(t, p.b.frames)

	require.NoError(t, p.net.SetControlLoss(AtoB, &Loss{}))
	p.send(p.a, "seen")
	p.send(p.b, "lost")
	p.run()
	require.Equal(t, []string{"seen"}, p.b.frames)
	require.Empty(t, p.a.frames)
	require.NoError(t, p.net.SetControlLoss(BtoA, nil))
	p.send(p.b, "like writes")
	p.run()
	require.Equal(t, []string{"like writes"}, p.a.frames)
	require.Error(t, p.net.SetControlLoss(AtoB, &Loss{Drop: 2}))
}

// A blackout, and a change of delay, concern one direction only.
func TestSetLink(t *testing.T) {
	p := newPair(t, Config{Link: Link{Delay: 100}})
	p.send(p.a, "under way")
	p.net.Advance(1)
	require.NoError(t, p.net.SetLink(AtoB, Link{Loss: Loss{Drop: 1}}))
	p.send(p.a, "lost")
	p.send(p.b, "back")
	p.run()
	require.Equal(t, []string{"under way"}, p.b.frames)
	require.Equal(t, []string{"back"}, p.a.frames)
	require.NoError(t, p.net.SetLink(AtoB, Link{Delay: 1000}))
	p.send(p.a, "slow")
	at := p.net.Now()
	p.run()
	require.Equal(t, at.Add(1000), p.net.Now())
	require.Error(t, p.net.SetLink(AtoB, Link{Delay: -1}))
}

func TestCorruptPacketsAreDropped(t *testing.T) {
	p := newPair(t, Config{Link: Link{Corrupt: 1}})
	p.stream(3, 100)
	require.Empty(t, p.b.imms())
	require.Equal(t, uint64(3), p.b.dev.Stats().Drops[backend.DropICRC])
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]Config{
		"sim: rate -1 bit/s":                        {Rate: -1},
		"sim: header of -1 bytes":                   {HeaderBytes: -1},
		"sim: MaxMTU of -1 bytes":                   {MaxMTU: -1},
		"sim: MaxDatagram of 5 bytes":               {MaxMTU: 4, MaxDatagram: 5},
		"sim: RecvBurst -1":                         {RecvBurst: -1},
		"sim: DeadKey 9":                            {DeadKey: 9},
		"with KeyPerMessage a dead key is silent":   {KeyPerMessage: true, DeadKey: backend.DeadKeyCompletes},
		"sim: link: drop probability 2":             {Link: Link{Loss: Loss{Drop: 2}}},
		"sim: link back: delay of -1 ns":            {Back: &Link{Delay: -1}},
		"sim: control loss: mean burst of -1":       {ControlLoss: &Loss{Burst: -1}},
		"reorder probability 0.1 without a reorder": {Link: Link{Reorder: 0.1}},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, want)
	}
}

func TestWrongUseIsRefused(t *testing.T) {
	p := newPair(t, Config{})
	d := p.a.dev
	_, err := d.Register(nil, 0)
	require.Error(t, err)
	_, err = d.RegisterSize(0, 0)
	require.Error(t, err)
	for _, c := range []backend.TableConfig{
		{Slots: 3, Generations: 4, MaxMessage: 8}, {Slots: 4, Generations: 3, MaxMessage: 8}, {Slots: 4, Generations: 4, MaxMessage: 7},
		{Slots: 1 << 24, Generations: 1 << 16, MaxMessage: 1 << 30}, {},
	} {
		_, err = d.NewTable(c)
		require.Error(t, err, "%+v", c)
	}
	_, err = d.NewCQ(backend.CQConfig{})
	require.Error(t, err)
	good := backend.QPConfig{Type: backend.UC, SendCQ: p.a.cq, RecvCQ: p.a.cq, MTU: 8, SendDepth: 1}
	for _, spoil := range []func(*backend.QPConfig){
		func(c *backend.QPConfig) { c.Type = 0 },
		func(c *backend.QPConfig) { c.MTU = 0 },
		func(c *backend.QPConfig) { c.MTU = 2 * units.MiB },
		func(c *backend.QPConfig) { c.SendCQ = nil },
		func(c *backend.QPConfig) { c.RecvCQ = p.b.cq },
		func(c *backend.QPConfig) { c.Table = p.b.table },
		func(c *backend.QPConfig) { c.SendDepth = -1 },
	} {
		c := good
		spoil(&c)
		_, err = d.NewQP(c)
		require.Error(t, err, "%+v", c)
	}
	q, err := d.NewQP(good)
	require.NoError(t, err)
	_, err = q.PostWrites(0, make([]backend.Write, 1))
	require.ErrorContains(t, err, "not connected")
	require.ErrorContains(t, q.Connect(p.a.uc.Info()), "no device with address")
	require.ErrorContains(t, q.Connect(p.b.uc.Info()), "MTU 8 here, 4096 at the peer")
	_, err = q.PostDatagrams(0, nil)
	require.Error(t, err)
	_, err = p.a.uc.PostWrites(0, []backend.Write{{Length: 1, LKey: 77}})
	require.ErrorContains(t, err, "unknown LKey")
	_, err = p.a.uc.PostWrites(0, []backend.Write{{Length: 2, LKey: p.a.mem.LKey(), Offset: testMax - 1}})
	require.ErrorContains(t, err, "exceeds its region")
	_, err = p.a.uc.PostWrites(0, []backend.Write{{Length: testMTU + 1}})
	require.ErrorContains(t, err, "exceeds the MTU")
	_, err = p.a.ud.PostDatagrams(0, []backend.Datagram{{Data: make([]byte, 4097)}})
	require.ErrorContains(t, err, "at most 4096")
	_, err = d.OpenAddress(p.a.ud.Info())
	require.Error(t, err)
	require.ErrorContains(t, p.a.cq.Close(), "close them first")
	require.ErrorIs(t, p.a.cq.Wait(1), ErrVirtual)
	readOnly, err := d.Register(make([]byte, 8), 0)
	require.NoError(t, err)
	_, _, err = p.a.table.Expose(1, readOnly, backend.Range{Length: 1})
	require.ErrorContains(t, err, "AccessRemoteWrite")
	_, _, err = p.a.table.Expose(1, p.a.mem, backend.Range{Offset: testMax, Length: 1})
	require.ErrorContains(t, err, "exceeds the region")
	_, _, err = p.a.table.Expose(1, p.b.mem, backend.Range{Length: 1})
	require.Error(t, err)
}
