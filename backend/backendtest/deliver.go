// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// testDelivery: a write of any length lands where its address says, and nowhere else, and the completion
// says so. The bytes are there when the completion is.
func testDelivery(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(3, 1, maxMessage-1)
	imm := uint32(0xfffffff0) // and through 0
	at := units.Bytes(0)
	for _, n := range []units.Bytes{0, 1, 2, 3, 4, 5, 63, 64, 65, w.mtu / 2, w.mtu - 1, w.mtu} {
		imm++
		x := tg.write(at, int(n), imm)
		x.Marked = !w.caps.ECN // it is ignored then
		tg.lands(x)
		w.deliver(w.a, 0, x)
		w.b.check("delivery of a write")
		at += n
	}
	// The last bytes of the buffer, in packets of all lengths that share them.
	for n := range units.Bytes(9) {
		imm++
		x := tg.write(tg.length-n, int(n), imm)
		tg.lands(x)
		w.deliver(w.a, 0, x)
		w.b.check("delivery to the end of the buffer")
	}
	w.a.check("the sender's memory")
}

// testBothDirections: both sides write at the same time.
func testBothDirections(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	const n = 64
	var ws [2][]backend.Write
	for i, e := range []*side{w.a, w.b} {
		tg := e.expose(5, 0, maxMessage)
		for k := range n {
			x := tg.write(units.Bytes(k)*1000, 1000, uint32(k))
			tg.lands(x)
			ws[i] = append(ws[i], x)
		}
	}
	w.b.post(0, ws[0]...)
	w.deliver(w.a, 0, ws[1]...)
	w.until("the writes of the other direction", func() bool {
		return w.ofWrites().Lose() || len(w.a.writes) >= n
	})
	if w.ofWrites().Lose() {
		w.deliver(w.b, 0, ws[0]...)
	}
	w.a.check("writes of both ends at the same time")
	w.b.check("writes of both ends at the same time")
}

// testOrder: on a network that keeps the order, the packets of a queue pair arrive in the order of their
// posts: what path-confirmed loss detection relies on.
func testOrder(t testing.TB, mk Maker) {
	w := on(t, mk.PacedPair(t, Faults{}), shape{})
	if !w.ofWrites().inOrder() {
		t.Skip("the network of this Pair changes the order (Pair.Faults)")
	}
	tg := w.b.expose(0, 0, maxMessage)
	rng := newRand(3)
	var ws []backend.Write
	var want []uint32
	for i := range uint32(1000) {
		n := rng.IntN(int(w.mtu) + 1)
		x := tg.write(units.Bytes(rng.IntN(int(maxMessage)-n)), n, i)
		tg.lands(x) // in order too, as writes overlap
		ws, want = append(ws, x), append(want, i)
	}
	var got []uint32
	for each := range slices.Chunk(ws, depth/2) { // which the receiver takes, even if it doesn't poll meanwhile
		got = append(got, w.deliver(w.a, 0, each...)...)
	}
	require.Equal(t, want, got, "order of arrival")
	w.b.check("overlapping writes")
}

// testQueuePairs: queue pairs that share tables and completion queues don't mix their packets up.
func testQueuePairs(t testing.TB, mk Maker) {
	const qps, each = 8, 40
	w := newWorld(t, mk, Faults{}, shape{qps: qps, cqs: 3})
	var ws [qps][]backend.Write
	for q := range qps {
		tg := w.b.expose(uint64(q), 0, maxMessage)
		for i := range each {
			x := tg.write(units.Bytes(i)*(w.mtu/4), int(w.mtu/4), uint32(q<<16|i))
			tg.lands(x)
			ws[q] = append(ws[q], x)
		}
	}
	for i := range each { // all at the same time, a few packets each
		for q := range qps {
			w.a.post(q, ws[q][i])
		}
	}
	for q := range qps {
		w.flush(w.a, q)
	}
	var got [qps][]uint32
	for _, c := range w.b.writes {
		q := int(c.Cookie - cookieUC)
		require.Less(t, q, qps, "cookie %#x", c.Cookie)
		require.EqualValues(t, q, c.Imm>>16, "a write of queue pair %d was reported for another", c.Imm>>16)
		got[q] = append(got[q], c.Imm)
	}
	for q := range qps {
		if !w.ofWrites().repeats() {
			require.Len(t, got[q], each, "completions of queue pair %d", q)
		}
		w.deliver(w.a, q, ws[q]...) // again, alone: what was lost before is there now
	}
	w.b.check("writes on many queue pairs")
}

// testTooLarge: a write that doesn't fit a packet is refused, and those before it in the same call go out.
func testTooLarge(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, maxMessage)
	good, bad := tg.write(0, 100, 1), tg.write(1000, int(w.mtu)+1, 2)
	n, err := w.a.qps[0].PostWrites(w.now(), []backend.Write{bad, good})
	require.Error(t, err, "a write of MTU+1 bytes")
	require.Zero(t, n, "a write of MTU+1 bytes")
	tg.lands(good)
	n, err = w.a.qps[0].PostWrites(w.now(), []backend.Write{good, bad, tg.write(2000, 100, 3)})
	require.Error(t, err, "a write of MTU+1 bytes after a good one")
	require.Equal(t, 1, n, "writes taken before the one that is too large")
	w.flush(w.a, 0)
	for _, c := range w.b.writes {
		require.EqualValues(t, 1, c.Imm, "a write that was not taken arrived")
	}
	if w.ofWrites().Lose() {
		w.deliver(w.a, 0, good)
	} else {
		require.NotEmpty(t, w.b.writes, "the write that was taken")
	}
	w.b.check("a write that is too large")
}

// testBadSource: nothing is sent that isn't registered memory.
func testBadSource(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, maxMessage)
	gone, err := w.a.dev.Register(make([]byte, 4096), 0)
	require.NoError(t, err)
	lkey := gone.LKey()
	require.NoError(t, gone.Close())
	good := tg.write(0, 100, 1)
	for what, change := range map[string]func(*backend.Write){
		"an unknown LKey":              func(x *backend.Write) { x.LKey = 0xdeadbeef },
		"LKey 0":                       func(x *backend.Write) { x.LKey = 0 },
		"a region that is closed":      func(x *backend.Write) { x.LKey = lkey },
		"a negative offset":            func(x *backend.Write) { x.Offset = -1 },
		"an offset behind the region":  func(x *backend.Write) { x.Offset = 1 << 40 },
		"the end of a region and more": func(x *backend.Write) { x.Offset = memorySize - 99 },
	} {
		bad := good
		bad.Imm = 2
		change(&bad)
		n, err := w.a.qps[0].PostWrites(w.now(), []backend.Write{bad}) // middleware may learn of it later
		require.False(t, n > 0 && err != nil, "a write from %s is taken, with the error %v", what, err)
	}
	w.settle()
	tg.lands(good)
	w.deliver(w.a, 0, good)
	for _, c := range w.b.writes {
		require.EqualValues(t, 1, c.Imm, "a write from no registered memory arrived")
	}
	w.b.check("writes from no registered memory")
}

// testFullQueue: posts of a sender that polls nothing are refused, and succeed again when it has polled.
func testFullQueue(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, maxMessage)
	const total = 6 * depth
	var ws []backend.Write
	for i := range uint32(total) {
		x := tg.write(units.Bytes(i%8)*8, 8, i)
		x.Signaled, x.WRID = true, uint64(i)
		ws = append(ws, x)
	}
	left := ws
	for len(left) > 0 {
		n, err := w.a.qps[0].PostWrites(w.now(), left[:min(len(left), 64)])
		require.NoError(t, err, "no room is not an error")
		require.LessOrEqual(t, n, len(left))
		if left = left[n:]; n > 0 {
			continue
		}
		w.until("room after a full queue", func() bool {
			k, err := w.a.qps[0].PostWrites(w.now(), left[:1])
			require.NoError(t, err)
			left = left[k:]
			return k > 0
		})
	}
	w.until("all KindSent", func() bool { return len(w.a.sent) == total })
	w.settle()
	require.True(t, slices.IsSortedFunc(w.a.sent, func(x, y backend.Completion) int { return int(x.WRID) - int(y.WRID) }))
	require.Len(t, w.a.sent, total, "KindSent completions")
}
