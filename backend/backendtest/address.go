// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// dead posts writes on queue pair q of a whose address has never been open, or whose table is closed. They change
// nothing, and complete as those to a revoked one. A reliable device may lose the connection by each of them instead.
func (w *world) dead(what string, q int, ws ...backend.Write) {
	w.Helper()
	if !w.caps.Reliable {
		w.late(what, q, ws...)
		return
	}
	for _, x := range ws {
		w.refused(what, q, x)
	}
}

// refused posts a write on queue pair q of a that the peer refuses. Both sides lose the connection and are connected anew. Where a
// dead address completes, that is as good.
func (w *world) refused(what string, q int, x backend.Write) {
	w.Helper()
	sent, written := len(w.a.sent), len(w.b.writes)
	x.WRID, x.Signaled = 0xdead, true
	w.a.post(q, x)
	w.until("the end of a refused write", func() bool { return len(w.a.sent) > sent })
	w.settle()
	w.b.check(what)
	status := w.a.sent[sent].Status
	require.Len(w, w.a.sent, sent+1, what)
	w.a.sent = w.a.sent[:sent]
	if status == backend.StatusOK && w.caps.DeadKey == backend.DeadKeyCompletes {
		return
	}
	require.Equal(w, backend.StatusError, status, "%s: KindSent of a write that the peer refuses", what)
	for _, c := range w.b.writes[written:] {
		require.NotEqual(w, backend.StatusOK, c.Status, "%s: a completion of a write that was refused", what)
	}
	n, err := w.a.qps[q].PostWrites(w.now(), []backend.Write{x})
	require.Error(w, err, "%s: post on a connection that was lost", what)
	require.Zero(w, n)
	for _, e := range []*side{w.a, w.b} {
		require.NoError(w, e.qps[q].Close())
		e.qps[q] = e.newUC(q, e.table)
	}
	require.NoError(w, w.a.qps[q].Connect(w.b.qps[q].Info()), "connect anew")
	require.NoError(w, w.b.qps[q].Connect(w.a.qps[q].Info()), "connect anew")
	w.flush(w.a, 0)
}

// late posts writes on queue pair q of a to an address that was open, and one behind them that lands. It checks
// that the late ones change nothing and complete as Caps.DeadKey says.
func (w *world) late(what string, q int, ws ...backend.Write) {
	w.Helper()
	if w.ofWrites().repeats() {
		w.settle() // late copies of earlier writes are not meant
	}
	mark := len(w.b.writes)
	w.a.post(q, ws...)
	w.flush(w.a, 0)
	if q != 0 {
		w.settle()
	}
	w.b.check(what)
	got := w.b.writes[mark:]
	switch w.caps.DeadKey {
	case backend.DeadKeySilent:
		require.Empty(w, got, "%s: a dead address is silent (Caps.DeadKey), and this completed", what)
	case backend.DeadKeyCompletes:
		if w.ofWrites().inOrder() {
			require.Len(w, got, len(ws), "%s: a dead address completes (Caps.DeadKey)", what)
		}
		for i, c := range got {
			require.Equal(w, backend.StatusOK, c.Status, what)
			if w.ofWrites().inOrder() {
				require.Equal(w, ws[i].Imm, c.Imm, what)
			}
		}
	case backend.DeadKeyEatsReceive:
		for _, c := range got {
			require.Equal(w, backend.StatusRemoteAccess, c.Status, "%s: a dead address reports an error (Caps.DeadKey)", what)
		}
	}
}

// testBadKey: a key that isn't the message's opens nothing, nor does a key of another table.
func testBadKey(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{qps: 3})
	tg := w.b.expose(2, 0, maxMessage)
	for _, rkey := range []uint32{0, ^uint32(0), tg.rkey ^ 1, tg.rkey ^ 1<<8, tg.rkey ^ 1<<31, tg.rkey + 1} {
		bad := tg
		bad.rkey = rkey
		w.dead("write with a bad rkey", 0, bad.write(0, 100, 1), bad.write(200, int(w.mtu), 2))
	}
	// A table that no queue pair here names.
	other, err := w.b.dev.NewTable(tableConfig())
	require.NoError(t, err)
	rkey, va, err := other.Expose(4, w.b.region, backend.Range{Offset: guard, Length: 4096})
	require.NoError(t, err)
	bad := target{e: w.b, rkey: rkey, va: va, length: 4096}
	w.dead("write with the key of another table", 0, bad.write(0, 100, 3))
	// A queue pair without a table.
	c := w.b.ucConfig(3, nil)
	closed, err := w.b.dev.NewQP(c)
	require.NoError(t, err)
	from := w.a.newUC(3, nil)
	w.a.qps, w.b.qps = append(w.a.qps, from), append(w.b.qps, closed)
	require.NoError(t, from.Connect(closed.Info()))
	require.NoError(t, closed.Connect(from.Info()))
	w.dead("write to a queue pair without a table", 3, tg.write(0, 100, 4))
	// And the right key still works.
	x := tg.write(0, 100, 5)
	tg.lands(x)
	w.deliver(w.a, 0, x)
	w.b.check("write with the right rkey after bad ones")
}

// testOutOfBounds: nothing outside the range of an entry is written, neither around it in the region nor
// in the entries that follow and precede it in the address space.
func testOutOfBounds(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	const length = 1001
	w.b.expose(6, 0, maxMessage)
	tg := w.b.expose(7, 333, length)
	w.b.expose(8, 0, maxMessage)
	imm := uint32(0)
	for _, n := range []int{1, 100, int(w.mtu)} {
		for _, off := range []units.Bytes{
			length, length + 1, length + w.mtu, maxMessage - units.Bytes(n), -units.Bytes(n), -333, -1 << 62, 1 << 62,
		} {
			if off < 0 && w.caps.RootKey && off > -maxMessage {
				continue // an address of the entry before, which is open
			}
			imm++
			w.dead("write outside the range of its entry", 0, tg.write(off, n, imm))
		}
	}
	if w.caps.RootKey {
		imm++
		w.dead("write to the end of the addresses", 0, backend.Write{
			RKey: tg.rkey, VA: ^uint64(0) - 9, Length: 100, LKey: w.a.source.LKey(), Imm: imm,
		})
	}
	w.straddle(tg)
	for _, n := range []int{1, 100} { // the edges of the range are inside
		for _, off := range []units.Bytes{0, length - units.Bytes(n)} {
			imm++
			x := tg.write(off, n, imm)
			tg.lands(x)
			w.deliver(w.a, 0, x)
			w.b.check("write at the edge of the range")
		}
	}
}

// straddle posts writes that begin inside and end outside of a range. What lies inside may be written by
// hardware that maps the rest to nothing.
func (w *world) straddle(tg target) {
	for i, over := range []units.Bytes{1, 2, 50, 99} {
		x := tg.write(tg.length-100+over, 100, uint32(0x9000+i))
		if w.caps.DeadKey == backend.DeadKeyCompletes {
			w.a.post(0, x)
			w.flush(w.a, 0)
			inside := tg.offset + tg.length - 100 + over
			copy(w.b.want[inside:tg.offset+tg.length], w.b.mem[inside:tg.offset+tg.length])
			w.b.check("write across the end of the range")
			continue
		}
		w.dead("write across the end of the range", 0, x)
	}
}

// testNullEntry: addresses of messages that aren't posted, never were, or aren't any more, take nothing.
func testNullEntry(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(1, 0, maxMessage)
	if w.caps.RootKey {
		for _, n := range []uint64{0, 2, 14, 1 + slots, 2 + slots, 1 + slots*(generations-1)} {
			null := tg
			null.va = backend.RootVA(w.caps, tableConfig(), n)
			w.dead("write to a message that was never posted", 0, null.write(0, 100, uint32(n)), null.write(500, int(w.mtu), uint32(n)+1000))
		}
	}
	w.b.revoke(1)
	w.late("write to a message that was revoked", 0, tg.write(0, 100, 1), tg.write(maxMessage-w.mtu, int(w.mtu), 2))
}

// testLateSequence: a packet for a message whose slot has been posted again changes nothing, however many
// rounds later it comes. Without a full-sequence check that holds for the rounds that have an address of
// their own; beyond them only time protects.
func testLateSequence(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	const slot = 3
	late := w.b.expose(slot, 0, maxMessage)
	first := late.write(0, 1000, 1)
	late.lands(first)
	w.deliver(w.a, 0, first)
	w.b.revoke(slot)
	for round := uint64(1); round <= 2*generations+1; round++ {
		n := slot + round*slots
		tg := w.b.expose(n, 0, maxMessage)
		if w.caps.FullSequence || !w.caps.RootKey || round%generations != 0 {
			w.late("late packet", 0, late.write(0, 1, 2), late.write(8, 1000, 3), late.write(maxMessage-w.mtu, int(w.mtu), 4))
		}
		x := tg.write(units.Bytes(round)*64, 500, 5)
		tg.lands(x)
		w.deliver(w.a, 0, x)
		w.b.check("write to a slot posted again")
		w.b.revoke(n)
	}
	if !w.caps.FullSequence {
		return
	}
	// A packet that is early, and one from as far away as there are sequences.
	tg := w.b.expose(slot+100*slots, 0, maxMessage)
	for _, n := range []uint64{slot + 101*slots, slot + 1<<20*slots, slot, slot + 99*slots, ^uint64(slots - slot - 1), 1<<63 + slot} {
		early := tg
		early.va = backend.RootVA(w.caps, tableConfig(), n)
		if early.va != tg.va {
			w.late("packet of another sequence", 0, early.write(0, 700, 6))
		}
	}
}

// testZeroLength: a write without payload completes, changes nothing, and is bound to a message as others
// are, unless keys are per message, whose devices don't check it (rxe).
func testZeroLength(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(1, 0, 5000)
	var ws []backend.Write
	for i, off := range []units.Bytes{0, 1, 4096, 4999} {
		x := tg.write(off, 0, uint32(i))
		x.LKey, x.Offset = 0xdeadbeef, 1<<40 // ignored
		ws = append(ws, x)
	}
	w.deliver(w.a, 0, ws...)
	w.b.check("write without payload")
	w.b.revoke(1)
	if !w.caps.RootKey {
		return
	}
	w.late("write without payload to a dead address", 0, tg.write(0, 0, 9))
	w.b.expose(1+slots, 0, 5000)
	w.late("late write without payload", 0, tg.write(0, 0, 10))
}

// testUnpostedReceive: where writes use up receives, those that find none are lost, and nothing else is; elsewhere none is.
func testUnpostedReceive(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	if !w.caps.NeedsReceives && w.caps.RecvBurst > 0 {
		t.Skipf("writes of %s use up no receives (Caps.NeedsReceives), but a buffer (Caps.RecvBurst)", w.caps.Backend)
	}
	tg := w.b.expose(0, 0, maxMessage)
	posted := 0
	for tries := 0; posted < 3*depth && tries < 100*depth; tries++ { // b doesn't poll
		n, err := w.a.qps[0].PostWrites(w.now(), []backend.Write{tg.write(0, 0, uint32(posted))})
		require.NoError(t, err)
		posted += n
		w.a.poll()
		if w.pair.Advance != nil {
			w.pair.Advance(max(w.now(), min(w.pair.Next(), w.a.next())))
		} else if n == 0 {
			time.Sleep(50 * time.Microsecond) // the device is a process or a thread of its own
		}
	}
	w.flush(w.a, 0)
	require.Greater(t, posted, depth, "the sender was held up by the receiver")
	require.LessOrEqual(t, len(w.b.writes), posted)
	require.GreaterOrEqual(t, len(w.b.writes), depth, "writes that found a receive")
	switch {
	case w.caps.Reliable || !w.caps.NeedsReceives && !w.pair.Faults.repeats():
		require.Len(t, w.b.writes, posted, "writes that waited for a receive")
	case !w.pair.Faults.repeats():
		require.NotZero(t, w.b.dev.Stats().Drops[backend.DropNoReceive], "drops counted as %v", backend.DropNoReceive)
	}
	x := tg.write(0, 1000, 1<<20)
	tg.lands(x)
	w.deliver(w.a, 0, x)
	w.b.check("write after a lack of receives")
}
