// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

const mtu = 1024

// rig is a table with two channels and two generations, all at worker 0.
type rig struct {
	w     Worker
	slots *Slots
	chans []*Channel
	rest  [256]int
}

func newRig() *rig {
	r := &rig{slots: NewSlots(DefaultSplit, 2)}
	for gen := range uint32(2) {
		for c := range 2 {
			r.chans = append(r.chans, &Channel{Slots: r.slots, Gen: gen, Index: c})
		}
	}
	return r
}

func (r *rig) open(seq uint64, gen uint32, length units.Bytes, ppc int) *Message {
	g := bitmap.NewGeometry(length, mtu, ppc)
	m := &Message{Seq: seq, Gen: gen, Arrivals: NewArrivals(2), Start: int(seq % 2)}
	m.Open(g, DefaultSplit, make([]uint64, bitmap.TrackerWords(g)))
	r.slots.Set(seq, m)
	return m
}

func (r *rig) feed(comps ...backend.Completion) {
	r.w.Enter()
	r.w.Process(5, NewChannels(r.chans...), comps, r.rest[:])
	r.w.Leave()
}

func data(cookie, slot, offset int, length uint32) backend.Completion {
	return backend.Completion{Kind: backend.KindWrite, Cookie: uint32(cookie), Imm: DefaultSplit.Imm(slot, offset, uint32(offset)), Len: length}
}

func TestPacketsBecomeChunks(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 10*mtu+1, 4)
	for i := range 10 {
		r.feed(data(0, 0, i, mtu))
	}
	require.Equal(t, 2, m.Tracker.ChunksDone())
	r.feed(data(0, 0, 10, mtu))
	require.Equal(t, uint64(1), r.w.Counters.Length.Load(), "a full packet at the short tail")
	r.feed(data(0, 0, 10, 1), data(0, 0, 10, 1))
	require.True(t, m.Tracker.AllSet())
	require.Equal(t, uint64(1), r.w.Counters.Duplicates.Load())
	require.Equal(t, uint64(12), r.w.Counters.Packets.Load())
	_, ok := m.Imm()
	require.False(t, ok, "nothing has said that there is one")
	r.feed(data(0, 0, DefaultSplit.Fragments(), 0))
	imm, ok := m.Imm()
	require.True(t, ok)
	require.Equal(t, uint32(0x76543210), imm)
}

func TestFilters(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 4*mtu, 1)
	r.feed(data(2, 0, 0, mtu)) // generation 1
	r.feed(data(0, 1, 0, mtu)) // empty slot
	require.Equal(t, uint64(2), r.w.Counters.Stale.Load())
	r.feed(data(0, 0, 4, mtu)) // beyond the end
	require.Equal(t, uint64(1), r.w.Counters.Length.Load())
	r.feed(data(99, 0, 0, mtu))
	for _, offset := range []int{DefaultSplit.Fragments() + 1, ProbeBase - 1, ProbeBase + NumProbes} { // neither fragments nor probes
		r.feed(data(0, 0, offset, 0))
	}
	require.Equal(t, uint64(4), r.w.Counters.Invalid.Load())
	require.False(t, m.Arrivals.Mark(0).Valid)
	m.Close()
	r.feed(data(0, 0, 0, mtu))
	require.Equal(t, uint64(3), r.w.Counters.Stale.Load())
	require.Zero(t, m.Tracker.PacketsDone())
}

func TestLengthLearntLate(t *testing.T) {
	for _, before := range []bool{true, false} {
		r := newRig()
		m := r.open(0, 0, 8*mtu, 2)
		tail := data(0, 0, 2, 7)
		if before {
			r.feed(tail)
			require.Equal(t, uint64(1), r.w.Counters.Aside.Load())
			require.Zero(t, m.Tracker.PacketsDone())
		}
		m.SetLength(2*mtu + 7)
		if !before {
			r.feed(tail)
		}
		r.feed(data(0, 0, 0, mtu), data(0, 0, 1, mtu))
		require.True(t, m.Tracker.AllSet(), "tail before the length: %v", before)
	}
}

func TestHomeChannelAndRepair(t *testing.T) {
	r := newRig()
	m := r.open(1, 0, 128*mtu, 16) // seq 1: word 0 is at home on channel 1
	r.feed(data(1, 1, 0, mtu))
	require.Zero(t, r.w.Counters.Repairs.Load())
	r.feed(data(0, 1, 1, mtu))
	require.Equal(t, uint64(1), r.w.Counters.Repairs.Load())
	require.True(t, m.Tracker.Packets().First.Has(0))
	require.True(t, m.Tracker.Packets().Repair.Has(1))
	r.feed(data(0, 1, 64, mtu))
	require.True(t, m.Tracker.Packets().First.Has(64), "word 1 is at home on channel 0")
}

func TestMarks(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 128*mtu, 16)
	m.Label = 5
	require.False(t, m.Arrivals.Mark(0).Valid)
	require.Equal(t, units.Never, m.Arrivals.First())
	r.feed(data(0, 0, 3, mtu), data(0, 0, 9, mtu))
	require.Equal(t, Mark{Label: 5, Offset: 9, Count: 2, Valid: true}, m.Arrivals.Mark(0))
	require.Equal(t, units.Instant(5), m.Arrivals.First())
	r.feed(data(0, 0, ProbeBase+3, 0))
	require.Equal(t, Mark{Label: 5, Offset: 3, Count: 3, Probe: true, Valid: true}, m.Arrivals.Mark(0))
	r.chans[1].Home = 1
	r.feed(data(1, 0, 64, mtu), data(1, 0, ProbeBase, 0))
	require.Equal(t, Mark{}, m.Arrivals.Mark(1), "the channel's mark is another worker's")
}

// TestNews: whatever a worker finds for a transfer, and a packet that counts once the length is known, is news once.
func TestNews(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 128*mtu, 16)
	r.chans[1].Home = 1 // another worker's
	require.False(t, m.Arrivals.News())
	for _, batch := range [][]backend.Completion{
		{data(0, 0, 3, mtu)}, {data(0, 0, 3, mtu)}, {data(0, 0, 4, mtu), data(0, 0, 5, mtu)}, {data(1, 0, 64, mtu)}, {data(0, 0, ProbeBase, 0)},
	} {
		r.feed(batch...)
		require.True(t, m.Arrivals.News(), "%+v", batch)
		require.False(t, m.Arrivals.News())
	}
	r.feed(data(0, 0, 9, 7))
	require.False(t, m.Arrivals.News(), "kept aside")
	m.SetLength(9*mtu + 7)
	require.True(t, m.Arrivals.News())
	r.feed(data(0, 0, 0, mtu))
	m.Arrivals.Reset()
	require.False(t, m.Arrivals.News())
}

// TestRunsTakeOnlyWhatIsPlain: behind packets of the same word, what looks like one more of them is handled as it would be alone.
func TestRunsTakeOnlyWhatIsPlain(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 12*mtu+1, 1)
	plain := func(offset int) backend.Completion {
		return backend.Completion{Kind: backend.KindWrite, Imm: DefaultSplit.Imm(0, offset, 0), Len: mtu}
	}
	trimmed, failed := plain(10), plain(11)
	trimmed.Kind, failed.Status = backend.KindTrimmed, backend.StatusError
	comps := []backend.Completion{plain(8), plain(9), plain(12), plain(13), trimmed, failed}
	for i := range DefaultSplit.Fragments() {
		comps = append(comps, data(0, 0, i, mtu))
	}
	r.w.Enter()
	require.Equal(t, 2, r.w.Process(5, NewChannels(r.chans...), comps, r.rest[:]), "those that are no packets")
	r.w.Leave()
	require.Equal(t, []int{4, 5}, r.rest[:2])
	require.EqualValues(t, 2, r.w.Counters.Length.Load(), "a full packet in the place of a short one, and one behind the end")
	require.EqualValues(t, 10, r.w.Counters.Packets.Load())
	require.Equal(t, 10, m.Tracker.Packets().NextMissing(0))
	r.feed(data(0, 0, DefaultSplit.Fragments(), 0))
	_, ok := m.Imm()
	require.True(t, ok, "each fragment is in")
}

// TestUsedAgain: messages and Arrivals are as new when they are used again.
func TestUsedAgain(t *testing.T) {
	r := newRig()
	m := r.open(0, 0, 20*mtu, 1)
	m.Unit = 1
	marked := data(0, 0, 9, mtu)
	marked.Imm, marked.Flags = DefaultSplit.Imm(0, 9, 2), backend.FlagECN
	r.feed(marked, data(0, 0, 10, 7))
	for i := range DefaultSplit.Fragments() + 1 {
		r.feed(data(0, 0, i, 0))
	}
	_, ok := m.Imm()
	require.True(t, ok)
	require.EqualValues(t, 2, m.Needed())
	require.Equal(t, Mark{Offset: 9, Marked: 1, Count: 1, Valid: true}, m.Arrivals.Mark(0))

	m.Arrivals.Reset()
	require.Equal(t, Mark{}, m.Arrivals.Mark(0))
	require.Equal(t, units.Never, m.Arrivals.First())
	g := m.Tracker.Geometry()
	m.Open(g, DefaultSplit, make([]uint64, bitmap.TrackerWords(g)))
	_, ok = m.Imm()
	require.False(t, ok)
	require.Zero(t, m.Needed())
	m.SetLength(10*mtu + 7)
	require.Zero(t, m.Tracker.PacketsDone(), "what was kept aside before")
	r.feed(data(0, 0, 0, mtu))
	require.Equal(t, Mark{Count: 1, Valid: true}, m.Arrivals.Mark(0))
}

// TestBitsBeforeMarks: where a worker can set no bits, because the packet bitmap is kept elsewhere, it publishes no mark either.
func TestBitsBeforeMarks(t *testing.T) {
	for _, alone := range []bool{false, true} {
		r := newRig()
		m := r.open(0, 0, 4*mtu, 1)
		m.OpenChunks(m.Tracker.Geometry(), DefaultSplit, make([]uint64, 1))
		r.w.gather.sparse, r.w.gather.batches = alone, 0
		require.Panics(t, func() { r.feed(data(0, 0, 0, mtu)) })
		require.False(t, m.Arrivals.Mark(0).Valid, "alone: %v", alone)
	}
}

func TestRandomOrderCompletes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		r := newRig()
		length := units.Bytes(1 + rng.IntN(300*mtu))
		m := r.open(uint64(rng.IntN(1024)), 1, length, 1+rng.IntN(80))
		g := m.Tracker.Geometry()
		var comps []backend.Completion
		for i := range g.Packets() {
			c := data(2+rng.IntN(2), int(m.Seq), i, uint32(g.PacketLen(i)))
			comps = append(comps, c)
			if rng.IntN(10) == 0 {
				comps = append(comps, c)
			}
		}
		dups := len(comps) - g.Packets()
		rng.Shuffle(len(comps), func(i, j int) { comps[i], comps[j] = comps[j], comps[i] })
		for len(comps) > 0 {
			n := min(len(comps), 1+rng.IntN(256))
			r.feed(comps[:n]...)
			comps = comps[n:]
		}
		require.True(t, m.Tracker.AllSet(), "seed %d", seed)
		require.Equal(t, uint64(dups), r.w.Counters.Duplicates.Load(), "seed %d", seed)
	}
}

func TestEpoch(t *testing.T) {
	var w Worker
	require.Zero(t, w.Epoch()%2)
	w.Enter()
	require.Equal(t, uint64(1), w.Epoch()%2)
	w.Leave()
	require.Equal(t, uint64(2), w.Epoch())
}

func TestSplit(t *testing.T) {
	for _, s := range []Split{{10, 18, 4}, {8, 22, 2}, {8, 16, 8}, {14, 18, 0}} {
		require.NoError(t, s.Check(), s)
		imm := s.Imm(s.Slots()-1, s.MaxPackets()-1, 1<<s.FragmentBits-1)
		require.Equal(t, ^uint32(0), imm)
		var sum uint32
		for i := range s.Fragments() {
			sum |= s.Fragment(0xcafe1234, i) << (i * int(s.FragmentBits))
		}
		if s.FragmentBits > 0 {
			require.Equal(t, uint32(0xcafe1234), sum)
		}
	}
	for _, s := range []Split{{10, 18, 3}, {0, 28, 4}, {10, 19, 3}, {20, 8, 4}, {26, 2, 4}, {1, 31, 0}, {13, 18, 1}} {
		require.Error(t, s.Check(), s)
	}
}
