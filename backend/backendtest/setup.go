// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// testCaps: the capabilities are constant and make sense, and the clock goes forward.
func testCaps(t testing.TB, mk Maker) {
	p := mk.Pair(t, Faults{})
	for _, d := range []backend.Device{p.A, p.B} {
		c := d.Caps()
		require.NotEmpty(t, c.Backend, "Caps.Backend")
		require.Positive(t, c.MinMTU, "Caps.MinMTU")
		require.LessOrEqual(t, c.MinMTU, c.MaxMTU, "Caps.MinMTU and MaxMTU")
		require.LessOrEqual(t, c.PathMTU, c.MaxMTU, "Caps.PathMTU and MaxMTU")
		require.Positive(t, c.MaxDatagram, "Caps.MaxDatagram")
		require.GreaterOrEqual(t, c.RecvBurst, units.Bytes(0), "Caps.RecvBurst")
		require.GreaterOrEqual(t, c.HeaderBytes, units.Bytes(0), "Caps.HeaderBytes")
		require.LessOrEqual(t, c.DeadKey, backend.DeadKeyEatsReceive, "Caps.DeadKey")
		require.LessOrEqual(t, c.Fence, backend.FenceTimed, "Caps.Fence")
		if c.FullSequence {
			require.True(t, c.RootKey, "Caps.FullSequence: the sequence is in the address, which needs RootKey")
		}
		require.GreaterOrEqual(t, c.Receivers, 0, "Caps.Receivers")
		require.Equal(t, p.A.Caps().Virtual, c.Virtual, "Caps.Virtual of both devices")
		before := d.Now()
		require.Equal(t, c, d.Caps(), "Caps asked twice")
		require.GreaterOrEqual(t, d.Now(), before, "Now goes backwards")
		require.Equal(t, d.Stats(), d.Stats(), "Stats of an idle device")
	}
}

// testObjects: what can't work is refused when it is made.
func testObjects(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	d := w.a.dev
	_, err := d.NewCQ(backend.CQConfig{Entries: 0, Workers: 1})
	require.Error(t, err, "a completion queue without entries")
	_, err = d.Register(nil, 0)
	require.Error(t, err, "memory of no bytes")
	for _, c := range []backend.TableConfig{
		{Slots: 0, Generations: 1, MaxMessage: 4096},
		{Slots: 3, Generations: 1, MaxMessage: 4096},
		{Slots: 4, Generations: 1, MaxMessage: 0},
		{Slots: 4, Generations: 1, MaxMessage: 5000},
	} {
		_, err = d.NewTable(c)
		require.Error(t, err, "table %+v: slots and length must be powers of two", c)
	}
	for what, change := range map[string]func(*backend.QPConfig){
		"no type":               func(c *backend.QPConfig) { c.Type = 0 },
		"no completion queues":  func(c *backend.QPConfig) { c.SendCQ, c.RecvCQ = nil, nil },
		"a peer's SendCQ":       func(c *backend.QPConfig) { c.SendCQ = w.b.cqs[0] },
		"a peer's RecvCQ":       func(c *backend.QPConfig) { c.RecvCQ = w.b.cqs[0] },
		"a peer's table":        func(c *backend.QPConfig) { c.Table = w.b.table },
		"MTU 0":                 func(c *backend.QPConfig) { c.MTU = 0 },
		"MTU below the least":   func(c *backend.QPConfig) { c.MTU = w.caps.MinMTU - 1 },
		"MTU above the largest": func(c *backend.QPConfig) { c.MTU = 2 * w.caps.MaxMTU },
	} {
		c := w.a.ucConfig(9, w.a.table)
		change(&c)
		_, err := d.NewQP(c)
		require.Error(t, err, "queue pair with %s", what)
	}
	require.Error(t, w.a.cqs[0].Close(), "a completion queue closed before its queue pairs")
	unused := w.a.newCQ(0, 1)
	require.NoError(t, unused.Close())
	require.NoError(t, unused.Close(), "Close of a completion queue again")
	_, err = unused.Poll(w.now(), w.a.dst[:])
	require.ErrorIs(t, err, backend.ErrClosed, "Poll of a completion queue that is closed")
	c := w.a.ucConfig(9, w.a.table)
	c.SendCQ = unused
	_, err = d.NewQP(c)
	require.Error(t, err, "queue pair with a completion queue that is closed")
	require.Error(t, w.a.ud.Connect(w.b.ud.Info()), "Connect of a UD queue pair")
	require.Error(t, w.a.qps[0].Connect(w.b.qps[0].Info()), "a second Connect")
}

// testMTU: the MTUs that Caps promise work, and both sides must have the same.
func testMTU(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	for _, mtu := range []units.Bytes{w.caps.PathMTU, w.mtu, max(256, w.caps.MinMTU)} {
		c := w.a.ucConfig(1, w.a.table)
		c.MTU = mtu
		q, err := w.a.dev.NewQP(c)
		require.NoError(t, err, "queue pair with MTU %d", mtu)
		require.Equal(t, mtu, q.Info().MTU, "Info.MTU")
		require.NoError(t, q.Close())
	}
	if w.mtu/2 < max(256, w.caps.MinMTU) {
		return // there is one MTU only
	}
	c := w.a.ucConfig(1, w.a.table)
	c.MTU = w.mtu / 2
	a, err := w.a.dev.NewQP(c)
	require.NoError(t, err)
	b := w.b.newUC(1, w.b.table)
	require.Error(t, a.Connect(b.Info()), "Connect to a queue pair with another MTU")
	require.Error(t, b.Connect(a.Info()), "Connect to a queue pair with another MTU")
}

// testInfo: what Info says survives its encoding, and names one queue pair only.
func testInfo(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{qps: 8, cqs: 2})
	for _, e := range []*side{w.a, w.b} {
		numbers := map[uint32]bool{}
		for _, q := range append(e.qps, e.ud) {
			i := q.Info()
			require.True(t, i.Addr.IsValid(), "Info.Addr")
			require.Equal(t, w.mtu, i.MTU, "Info.MTU")
			require.False(t, numbers[i.QPN], "QPN %#x of two queue pairs", i.QPN)
			require.NotZero(t, i.QPN, "QPN")
			numbers[i.QPN] = true
			again, err := backend.ParseQPInfo(i.Append(nil))
			require.NoError(t, err)
			require.Equal(t, i, again, "Info after encoding and decoding")
			require.Equal(t, i, q.Info(), "Info asked twice")
		}
	}
}

// testNotConnected: posts on queue pairs that can't carry them fail, and take nothing.
func testNotConnected(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, 4096)
	write, dgram := []backend.Write{tg.write(0, 100, 1)}, []backend.Datagram{{To: w.a.to, Data: []byte("x")}}
	now := w.now()
	fresh := w.a.newUC(1, w.a.table)
	for what, post := range map[string]func() (int, error){
		"writes on a queue pair that is not connected": func() (int, error) { return fresh.PostWrites(now, write) },
		"writes on a UD queue pair":                    func() (int, error) { return w.a.ud.PostWrites(now, write) },
		"datagrams on a UC queue pair":                 func() (int, error) { return w.a.qps[0].PostDatagrams(now, dgram) },
	} {
		n, err := post()
		require.Error(t, err, what)
		require.Zero(t, n, what)
	}
	// A receiver that isn't connected takes nothing either.
	half := w.b.newUC(1, w.b.table)
	require.NoError(t, fresh.Connect(half.Info()))
	w.a.qps = append(w.a.qps, fresh)
	w.a.post(1, tg.write(0, 100, 1))
	w.flush(w.a, 0)
	require.Empty(t, w.b.writes, "a write to a queue pair that is not connected")
	w.b.check("a write to a queue pair that is not connected")
}
