// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// testSentInOrder: each signalled write is reported once, on its queue pair's cookie, in the order of the
// posts, whether it arrives or not; others are not reported.
func testSentInOrder(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{qps: 3, cqs: 2})
	tg := w.b.expose(0, 0, maxMessage)
	rng := newRand(21)
	var want [3][]uint64
	for i := uint64(0); i < 600; {
		q := rng.IntN(3)
		var batch []backend.Write
		for range 1 + rng.IntN(8) {
			x := tg.write(units.Bytes(i)*64, 1+rng.IntN(64), uint32(i))
			x.WRID = 1<<63 | i<<8 | uint64(q)
			if rng.IntN(10) == 0 && !w.caps.Reliable {
				x.VA += uint64(4 * maxMessage) // to nowhere: sent all the same
			}
			if x.Signaled = rng.IntN(5) == 0; x.Signaled {
				want[q] = append(want[q], x.WRID)
			}
			batch = append(batch, x)
			i++
		}
		w.a.post(q, batch...)
	}
	total := len(want[0]) + len(want[1]) + len(want[2])
	w.until("all KindSent", func() bool { return len(w.a.sent) >= total })
	w.settle()
	var got [3][]uint64
	for _, c := range w.a.sent {
		q := c.Cookie - cookieUC
		require.Less(t, q, uint32(3), "cookie of KindSent")
		require.Equal(t, backend.StatusOK, c.Status, "status of KindSent")
		got[q] = append(got[q], c.WRID)
	}
	require.Equal(t, want, got, "KindSent of signalled writes, by queue pair")
}

// testSentFreesMemory: once KindSent has come, what is written to the source is not sent any more; the
// slice of writes is the poster's as soon as the post returns, and so is the memory where posting copies it (Caps.Inline).
func testSentFreesMemory(t testing.TB, mk Maker) {
	w := newWorld(t, mk, Faults{}, shape{})
	tg := w.b.expose(0, 0, maxMessage)
	const n, each = 32, 1000
	batch := make([]backend.Write, 2)
	for i := range uint32(n) {
		for k := range batch {
			x := tg.write(units.Bytes(i*2+uint32(k))*each, each, 2*i+uint32(k))
			x.Offset = units.Bytes(k) * each
			x.WRID, x.Signaled = uint64(i), k == len(batch)-1
			tg.lands(x)
			batch[k] = x
		}
		w.a.post(0, batch...)
		clear(batch)
		w.until("KindSent", func() bool { return w.caps.Inline || len(w.a.sent) > int(i) })
		for k := range 2 * each {
			w.a.src[k] += 13 // the memory of both: the signal covers earlier writes
		}
	}
	w.flush(w.a, 0)
	if !w.ofWrites().Lose() {
		w.b.check("memory used again after KindSent")
		return
	}
	arrived := map[uint32]bool{}
	for _, c := range w.b.writes {
		arrived[c.Imm] = true
	}
	w.b.checkSome("memory used again after KindSent", tg, each, 2*n, arrived)
}

// checkSome checks count pieces of a target's memory: those that have arrived are as wanted. It wants the
// others as they are.
func (e *side) checkSome(what string, tg target, size units.Bytes, count int, arrived map[uint32]bool) {
	e.w.Helper()
	for i := range count {
		if at := tg.offset + units.Bytes(i)*size; !arrived[uint32(i)] {
			copy(e.want[at:at+size], e.mem[at:at+size])
		}
	}
	e.check(what)
}
