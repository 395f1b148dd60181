// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// testExpose: what can't be exposed is refused, and revoking is idempotent and harmless.
func testExpose(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	e := w.b
	tg := e.expose(3, 0, 4096)
	readOnly := e.source
	for what, f := range map[string]func() (uint32, uint64, error){
		"a slot that is taken": func() (uint32, uint64, error) { return e.table.Expose(3+slots, e.region, backend.Range{Length: 1}) },
		"a message twice":      func() (uint32, uint64, error) { return e.table.Expose(3, e.region, backend.Range{Length: 1}) },
		"memory without AccessRemoteWrite": func() (uint32, uint64, error) {
			return e.table.Expose(4, readOnly, backend.Range{Length: 1})
		},
		"another device's memory": func() (uint32, uint64, error) {
			return e.table.Expose(4, w.a.region, backend.Range{Length: 1})
		},
		"more than the region": func() (uint32, uint64, error) {
			return e.table.Expose(4, e.region, backend.Range{Offset: memorySize - 100, Length: 101})
		},
		"more than a message": func() (uint32, uint64, error) {
			return e.table.Expose(4, e.region, backend.Range{Length: maxMessage + 1})
		},
		"a negative offset": func() (uint32, uint64, error) {
			return e.table.Expose(4, e.region, backend.Range{Offset: -1, Length: 10})
		},
		"a negative length": func() (uint32, uint64, error) {
			return e.table.Expose(4, e.region, backend.Range{Offset: 10, Length: -1})
		},
		"a range that overflows": func() (uint32, uint64, error) {
			return e.table.Expose(4, e.region, backend.Range{Offset: 1 << 62, Length: 1 << 62})
		},
	} {
		_, _, err := f()
		require.Error(t, err, "Expose of %s", what)
	}
	for _, n := range []uint64{4, 4 + slots, 3 + slots, 1 << 60} { // not exposed
		e.table.StartRevoke(n)
		require.True(t, e.table.Revoked(n), "Revoked of a message that isn't exposed")
	}
	require.False(t, e.table.Revoked(3), "Revoked of a message that is exposed")
	x := tg.write(0, 1000, 1)
	tg.lands(x)
	w.deliver(w.a, 0, x)
	e.revoke(3)
	e.table.StartRevoke(3)
	require.True(t, e.table.Revoked(3), "Revoked after revoking twice")
	tg = e.expose(3+slots, 7, 4096)
	e.table.StartRevoke(3) // late, and of no effect on its successor
	x = tg.write(0, 1000, 2)
	tg.lands(x)
	w.deliver(w.a, 0, x)
	e.check("write after a revocation of the slot's earlier message")
	empty := e.expose(5, 0, 0) // legal, and takes nothing
	w.dead("write to an entry of no bytes", 0, empty.write(0, 1, 3))
}

// testRevoke: while packets are in flight, a message is revoked. When Revoked says so nothing changes its
// buffer any more, nor that of the slot's next message.
func testRevoke(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	rng := newRand(5)
	imm := uint32(0)
	n := Rounds(100)
	if w.pair.Advance == nil {
		n = (n + 3) / 4 // each settles in real time
	}
	for round := range uint64(n) {
		n := 2 + round*slots
		tg := w.b.expose(n, 0, maxMessage)
		k := 1 + rng.IntN(40)
		for range k {
			imm++
			w.a.post(0, tg.write(units.Bytes(rng.IntN(int(maxMessage-w.mtu))), rng.IntN(int(w.mtu))+1, imm))
		}
		for range rng.IntN(3 * k) {
			w.step()
		}
		w.b.revoke(n)
		fenced := bytes.Clone(w.b.mem)
		w.b.want = fenced
		if w.caps.FullSequence || !w.caps.RootKey {
			next := w.b.expose(n+slots, 0, maxMessage)
			w.flush(w.a, 0)
			w.b.check("a packet landed after Revoked")
			w.b.revoke(next.n)
		}
		w.flush(w.a, 0)
		w.settle()
		w.b.check("a packet landed after Revoked")
	}
}

// testRegionBusy: memory that a peer may write can't be deregistered.
func testRegionBusy(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	mem := make([]byte, 4096)
	r, err := w.b.dev.Register(mem, backend.AccessRemoteWrite)
	require.NoError(t, err)
	require.EqualValues(t, len(mem), r.Len(), "Region.Len")
	require.True(t, &r.Bytes()[0] == &mem[0] && len(r.Bytes()) == len(mem), "Region.Bytes")
	for _, n := range []uint64{1, 2} {
		_, _, err = w.b.table.Expose(n, r, backend.Range{Length: 4096})
		require.NoError(t, err)
	}
	require.ErrorIs(t, r.Close(), backend.ErrBusy, "Close of memory that two messages expose")
	w.b.revoke(1)
	require.ErrorIs(t, r.Close(), backend.ErrBusy, "Close of memory that a message exposes")
	w.b.revoke(2)
	require.NoError(t, r.Close(), "Close of memory that nothing exposes")
	require.NoError(t, r.Close(), "Close again")
	_, _, err = w.b.table.Expose(3, r, backend.Range{Length: 1})
	require.Error(t, err, "Expose of memory that is closed")
}

// testTableClose: closing a table revokes what is left in it.
func testTableClose(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	second, err := w.b.dev.NewTable(tableConfig())
	require.NoError(t, err)
	q := w.b.newUC(1, second)
	from := w.a.newUC(1, w.a.table)
	require.NoError(t, q.Connect(from.Info()))
	require.NoError(t, from.Connect(q.Info()))
	w.a.qps, w.b.qps = append(w.a.qps, from), append(w.b.qps, q)
	tg := target{e: w.b, n: 6, offset: guard + 6*maxMessage, length: maxMessage}
	tg.rkey, tg.va, err = second.Expose(6, w.b.region, backend.Range{Offset: tg.offset, Length: maxMessage})
	require.NoError(t, err)
	x := tg.write(0, 500, 1)
	tg.lands(x)
	w.deliver(w.a, 1, x)
	require.NoError(t, second.Close())
	w.until("Revoked after Close", func() bool { return second.Revoked(6) })
	w.dead("write to a table that is closed", 1, tg.write(1000, 500, 2))
	_, _, err = second.Expose(7, w.b.region, backend.Range{Length: 1})
	require.Error(t, err, "Expose in a table that is closed")
	require.NoError(t, second.Close(), "Close again")
}
