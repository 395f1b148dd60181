// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// faultWrites is how many packets a case of this file sends: with a probability of 10 % each kind of
// fault is all but certain.
const faultWrites = 600

// A faulty network: what arrives is whole and in its place, what doesn't leaves its place alone, and
// every signalled write is reported as sent. It returns the immediates in order of arrival.
func testFaults(t testing.TB, mk Maker, ask Faults) (w *world, order []uint32) {
	w = newWorld(t, mk, ask, shape{})
	const each = 100
	tg := w.b.expose(0, 0, maxMessage)
	var ws []backend.Write
	for i := range uint32(faultWrites) {
		x := tg.write(units.Bytes(i)*each, each, i)
		tg.lands(x)
		x.Signaled, x.WRID = true, uint64(i)
		ws = append(ws, x)
	}
	untouched := slices.Clone(w.b.mem)
	w.a.post(0, ws...)
	w.until("KindSent of what may be lost", func() bool { return len(w.a.sent) == len(ws) })
	w.settle()
	arrived := map[uint32]bool{}
	for _, c := range w.b.writes {
		require.Equal(t, backend.Completion{
			Kind: backend.KindWrite, Cookie: cookieUC, Imm: c.Imm, Len: each, WRID: c.WRID,
		}, c, "a completion on a bad network")
		require.Less(t, c.Imm, uint32(faultWrites), "immediate")
		arrived[c.Imm] = true
		order = append(order, c.Imm)
	}
	for i := range faultWrites {
		if at := tg.offset + units.Bytes(i)*each; !arrived[uint32(i)] {
			copy(w.b.want[at:at+each], untouched[at:at+each])
		}
	}
	w.b.check("writes on a bad network")
	require.NotEmpty(t, order, "nothing arrived")
	w.checkCounters()
	if w.caps.Reliable {
		all := make([]uint32, faultWrites)
		for i := range all {
			all[i] = uint32(i)
		}
		require.Equal(t, all, order, "what has arrived over reliable connections")
	}
	return w, order
}

// checkCounters compares what each side has sent with what the other received, when nothing is in flight.
// It leaves out a network whose faults nobody counts: one that isn't emulated, and corruption, which
// kernels drop without a word.
func (w *world) checkCounters() {
	w.Helper()
	if w.pair.Faults.Corrupt > 0 || w.pair.Overruns && w.pair.Faults != (Faults{}) {
		return
	}
	for _, from := range []*side{w.a, w.b} {
		s, r := from.dev.Stats(), w.peer(from).dev.Stats()
		lost := s.Drops[backend.DropEmulatedLoss] + s.Drops[backend.DropEmulatedQueue]
		require.Equal(w, s.PacketsSent-lost, r.PacketsReceived, "Stats.PacketsReceived, of %d sent", s.PacketsSent)
	}
}

// skipFault skips a case when the network can't be made that bad.
func skipFault(t testing.TB, mk Maker, ask Faults, what string, has func(Faults) bool) {
	t.Helper()
	if p := mk.Pair(t, ask); !has(p.Faults) {
		t.Skipf("the Maker of this Pair can't make %s (Pair.Faults)", what)
	}
}

func distinct(order []uint32) int {
	return len(slices.Compact(slices.Sorted(slices.Values(order))))
}

// testLoss: packets that are lost are just not there.
func testLoss(t testing.TB, mk Maker) {
	ask := Faults{Loss: 0.1}
	skipFault(t, mk, ask, "loss", func(f Faults) bool { return f.Loss > 0 })
	w, order := testFaults(t, mk, ask)
	if w.caps.Reliable {
		return // it has mended it all
	}
	require.Less(t, distinct(order), faultWrites, "nothing was lost")
}

// testDuplication: packets that arrive twice complete twice, with the same bytes.
func testDuplication(t testing.TB, mk Maker) {
	ask := Faults{Duplicate: 0.1}
	skipFault(t, mk, ask, "duplicates", func(f Faults) bool { return f.Duplicate > 0 })
	w, order := testFaults(t, mk, ask)
	if w.caps.Reliable {
		return
	}
	require.Less(t, distinct(order), len(order), "nothing came twice")
}

// testReordering: packets that overtake others are as good.
func testReordering(t testing.TB, mk Maker) {
	ask := Faults{Reorder: 0.1}
	skipFault(t, mk, ask, "disorder", func(f Faults) bool { return f.Reorder > 0 })
	w, order := testFaults(t, mk, ask)
	if w.caps.Reliable {
		return
	}
	require.False(t, slices.IsSorted(order), "all came in order")
	if !w.pair.Faults.Lose() {
		require.Equal(t, faultWrites, distinct(order), "reordering lost something")
	}
}

// testCorruption: packets that were damaged are found out, counted, and not there.
func testCorruption(t testing.TB, mk Maker) {
	ask := Faults{Corrupt: 0.2}
	skipFault(t, mk, ask, "corruption", func(f Faults) bool { return f.Corrupt > 0 })
	w, order := testFaults(t, mk, ask)
	if w.caps.Reliable {
		return
	}
	require.Less(t, distinct(order), faultWrites, "nothing was damaged")
	require.NotZero(t, w.b.dev.Stats().Drops[backend.DropICRC], "drops counted as %v", backend.DropICRC)
}
