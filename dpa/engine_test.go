// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestHostIsAnEngine drives a message through its life in a table of Host: each call has the effect that the
// contract states.
func TestHostIsAnEngine(t *testing.T) {
	const mtu = 1024
	var w Worker
	h := NewHost(&w)
	var e Engine = h
	table, err := e.NewTable(TableConfig{Split: DefaultSplit, Channels: 1})
	require.NoError(t, err)
	require.NoError(t, table.Attach(3, 0, 0, 0))
	g := bitmap.NewGeometry(10*mtu, mtu, 2)
	m := &Message{Seq: 5, Arrivals: NewArrivals(1)}
	m.Open(g, DefaultSplit, make([]uint64, bitmap.TrackerWords(g)))
	require.NoError(t, table.Open(m))
	require.ErrorContains(t, table.Open(&Message{Arrivals: NewArrivals(0)}), "call NewArrivals with QPConfig.Channels")
	deliver := func(cookie uint32, offset int) {
		w.Process(1, h.Channels(), []backend.Completion{{
			Kind: backend.KindWrite, Cookie: cookie, Len: mtu, Imm: DefaultSplit.Imm(5, offset, 0),
		}}, make([]int, 1))
	}
	counts := func() Counts {
		c, err := e.Counts()
		require.NoError(t, err)
		return c
	}

	w.Enter()
	deliver(3, 0)
	deliver(3, 1)
	deliver(2, 2) // nothing is attached
	require.True(t, table.News())
	table.Collect(2)
	require.False(t, table.News())
	require.Equal(t, 1, m.Tracker.ChunksDone())
	require.Equal(t, Counts{Packets: 2, Invalid: 1}, counts())

	table.SetLength(m, 4*mtu)
	n, known := m.Length()
	require.True(t, known)
	require.EqualValues(t, 4*mtu, n)

	table.Close(m)
	deliver(3, 2)
	require.Equal(t, Counts{Packets: 2, Invalid: 1, Stale: 1}, counts())
	epochs := e.Epochs(nil)
	require.False(t, e.Left(epochs), "the worker is in the batch in which it was closed")
	w.Emptied()
	require.False(t, e.Emptied(epochs), "the batch began before")
	w.Leave()
	require.True(t, e.Left(epochs))
	table.Remove(m)
	table.Detach(3)
	w.Enter()
	deliver(3, 3)
	w.Emptied()
	w.Leave()
	require.True(t, e.Emptied(epochs))
	require.Equal(t, Counts{Packets: 2, Invalid: 2, Stale: 1}, counts())
	require.NoError(t, table.Err())
}

// TestPushedMessage: what a device pushes is what readers of a message and of its marks see.
func TestPushedMessage(t *testing.T) {
	g := bitmap.NewGeometry(300, 1, 2)
	m := &Message{Arrivals: NewArrivals(2)}
	m.OpenChunks(g, DefaultSplit, make([]uint64, bitmap.Words(g.Chunks())))
	m.PushChunks(1, 1<<3)
	require.True(t, m.Tracker.Chunks().Has(67))

	imm := uint32(0x12345678)
	m.PushFragments(uint64(imm) | 0xff<<32)
	_, ok := m.Imm()
	require.False(t, ok, "the empty fragment is missing")
	m.PushFragments(1 << 40)
	got, ok := m.Imm()
	require.True(t, ok)
	require.Equal(t, imm, got)

	require.True(t, m.Arrivals.PushMark(7, 1, 1<<63|5<<46|100<<16|9))
	require.False(t, m.Arrivals.PushMark(8, 1, 1<<63|5<<46|100<<16|9))
	require.Equal(t, Mark{Label: 5, Offset: 100, Count: 9, Valid: true}, m.Arrivals.Mark(1))
	require.Equal(t, uint16(9), m.Arrivals.Count(1))
	require.Equal(t, Mark{}, m.Arrivals.Mark(0))
	require.True(t, m.Arrivals.PushMark(9, 1, 1<<63|5<<46|101<<16|10))
	require.EqualValues(t, 7, m.Arrivals.First())

	m.PushNeeded(5)
	m.PushNeeded(3)
	require.EqualValues(t, 5, m.Needed(), "what another thread had counted before")

	m.SetLength(units.Bytes(2 * 68))
	require.Equal(t, 68, m.Tracker.Chunks().Len())
}

// TestDrain: a slot and generation is used again when every thread has found its queue empty since the fence of the message before it,
// and since the last packet of that one came. The threads are asked before a message depends on it.
func TestDrain(t *testing.T) {
	const slots, generations, round = 4, 2, 8
	var w Worker
	d := NewDrain(NewHost(&w), slots, generations)
	may := func(now units.Instant, n uint64, last units.Instant, wantOK, wantAsked bool) {
		t.Helper()
		ok, asked := d.May(now, n, last)
		require.Equal(t, [2]bool{wantOK, wantAsked}, [2]bool{ok, asked})
	}
	empty := func() {
		w.Enter()
		w.Emptied()
		w.Leave()
	}
	for n := range uint64(slots + 1) {
		may(10, n, LongAgo, true, false)
	}
	may(10, slots+1, LongAgo, true, true) // of two messages the fence is down
	may(11, round, LongAgo, false, false)
	empty()
	may(12, round, LongAgo, true, true)
	empty()
	may(13, round, 12, true, false)
	may(14, round, 13, false, true) // a packet came after the threads were asked
	empty()
	may(15, round, 13, true, false)
	may(16, round+slots, LongAgo, true, true)
	empty()
	may(17, 2*round+1, LongAgo, false, true) // the message before it was not fenced when they were asked
}
