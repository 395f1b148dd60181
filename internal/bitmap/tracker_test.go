// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

// chunkSizes has every path: within a word, a word, words, unaligned.
var chunkSizes = []int{1, 2, 3, 4, 7, 8, 16, 17, 32, 48, 63, 64, 65, 96, 100, 128, 192, 256, 1000, 1024}

func randomChunk(rng *rand.Rand) int {
	if rng.IntN(2) == 0 {
		return chunkSizes[rng.IntN(len(chunkSizes))]
	}
	return 1 + rng.IntN(300)
}

func newTracker(g Geometry) *Tracker {
	t := new(Tracker)
	mem := make([]uint64, TrackerWords(g))
	for i := range mem {
		mem[i] = ^uint64(0) // as a pool would hand it out
	}
	t.Bind(g, mem)
	return t
}

// packetsGeometry is a message of that many packets, the last one short.
func packetsGeometry(packets, perChunk int) Geometry {
	const mtu = 1024
	return NewGeometry(max(0, units.Bytes(packets)*mtu-1), mtu, perChunk)
}

// A model is what a Tracker must equal after every step.
type model struct {
	packets  naive
	perChunk int
}

func (m *model) arrive(w int, b uint64) (dup uint64) {
	for ; b != 0; b &= b - 1 {
		i := w*64 + bits.TrailingZeros64(b)
		if i >= len(m.packets) {
			continue
		}
		if m.packets[i] {
			dup |= b & -b
		}
		m.packets[i] = true
	}
	return dup
}

func (m *model) chunks() naive {
	var out naive
	for from := 0; from < len(m.packets); from += m.perChunk {
		part := m.packets[from:min(from+m.perChunk, len(m.packets))]
		out = append(out, part.count() == len(part))
	}
	return out
}

func (m *model) check(t *testing.T, rng *rand.Rand, tr *Tracker) {
	t.Helper()
	chunks := m.chunks()
	compare(t, rng, tr.Packets(), m.packets)
	compare(t, rng, tr.Chunks(), chunks)
	if tr.ChunksDone() != chunks.count() || tr.PacketsDone() != m.packets.count() ||
		tr.AllSet() != (m.packets.count() == len(m.packets)) {
		t.Fatalf("%d chunks, %d packets, all %v; want %d of %d, %d of %d", tr.ChunksDone(), tr.PacketsDone(), tr.AllSet(),
			chunks.count(), len(chunks), m.packets.count(), len(m.packets))
	}
	if g := tr.Geometry(); g.Packets() != len(m.packets) || g.Chunks() != len(chunks) {
		t.Fatalf("geometry has %d packets, %d chunks; want %d, %d", g.Packets(), g.Chunks(), len(m.packets), len(chunks))
	}
}

// step delivers some packets of one word in a random way, to tracker and model.
func (m *model) step(t *testing.T, rng *rand.Rand, tr *Tracker, words int) {
	t.Helper()
	w := rng.IntN(words)
	b := uint64(1) << rng.IntN(64)
	switch rng.IntN(4) {
	case 0:
		b = ^uint64(0)
	case 1:
		b = rng.Uint64()
	case 2: // a run of packets
		b = below(rng.IntN(65)) &^ below(rng.IntN(64))
	}
	var dup uint64
	switch rng.IntN(3) {
	case 0:
		dup = tr.First(w, b)
	case 1:
		dup = tr.Repair(w, b)
	case 2:
		if b &= -b; b == 0 {
			return
		}
		if tr.RepairOne(w*64 + bits.TrailingZeros64(b)) {
			dup = b
		}
	}
	if want := m.arrive(w, b); dup != want {
		t.Fatalf("word %d, packets %x: dup %x, want %x", w, b, dup, want)
	}
}

// Any geometry, any order, duplicates, both maps, shrunk at random times.
func TestTrackerAgainstModel(t *testing.T) {
	rng := newRand(t)
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		perChunk := randomChunk(rng)
		n := 1 + rng.IntN(1+rng.IntN(2000))
		tr := newTracker(packetsGeometry(n, perChunk))
		m := &model{packets: make(naive, n), perChunk: perChunk}
		words := Words(n)
		for i := 0; !tr.AllSet() && i < 2000; i++ {
			m.step(t, rng, tr, words)
			if rng.IntN(40) == 0 {
				to := rng.IntN(len(m.packets) + 3) // now and then it is no shorter
				tr.Shrink(packetsGeometry(to, perChunk))
				m.packets = m.packets[:min(to, len(m.packets))]
			}
			if i < 10 || rng.IntN(20) == 0 {
				m.check(t, rng, tr)
			}
		}
		m.check(t, rng, tr)
		if t.Failed() {
			t.Fatalf("round %d: %d packets in chunks of %d", round, n, perChunk)
		}
	}
}

// Every length around a packet and a chunk, every chunk size, in order and in
// reverse: each chunk shows up with its last packet, not before.
func TestTrackerEdgeLengths(t *testing.T) {
	const mtu = 256
	for _, perChunk := range chunkSizes {
		chunk := units.Bytes(perChunk) * mtu
		for _, length := range []units.Bytes{
			0, 1, mtu - 1, mtu, mtu + 1, chunk - 1, chunk, chunk + 1, 2*chunk - mtu, 2*chunk - 1, 2 * chunk, 2*chunk + 1,
		} {
			g := NewGeometry(length, mtu, perChunk)
			deliverEach(t, g, func(i int) int { return i })
			deliverEach(t, g, func(i int) int { return g.Packets() - 1 - i })
		}
	}
}

func deliverEach(t *testing.T, g Geometry, order func(int) int) {
	t.Helper()
	tr := newTracker(g)
	left := make([]int, g.Chunks())
	for c := range left {
		left[c] = g.PacketsOfChunk(c).Len()
	}
	done := 0
	for i := range g.Packets() {
		if tr.AllSet() {
			t.Fatalf("%+v: all set after %d packets", g, i)
		}
		p := order(i)
		tr.First(p/64, 1<<(p%64))
		c := g.ChunkOf(p)
		if left[c]--; left[c] == 0 {
			done++
		}
		if tr.Chunks().Has(c) != (left[c] == 0) || tr.ChunksDone() != done {
			t.Fatalf("%+v: packet %d, %d left in chunk %d: bit %v, %d done, want %d", g, p, left[c], c, tr.Chunks().Has(c), tr.ChunksDone(), done)
		}
	}
	if !tr.AllSet() {
		t.Fatalf("%+v: not all set", g)
	}
}

func TestTrackerIgnoresPacketsBeyondTheEnd(t *testing.T) {
	for _, perChunk := range chunkSizes {
		tr := newTracker(packetsGeometry(70, perChunk))
		for _, w := range []int{1, 2, 1000} {
			if dup := tr.First(w, ^below(6)) | tr.Repair(w, ^below(6)); dup != 0 {
				t.Errorf("chunk %d, word %d: dup %x", perChunk, w, dup)
			}
		}
		if tr.RepairOne(70) || tr.PacketsDone() != 0 || tr.ChunksDone() != 0 || tr.Chunks().Count() != 0 {
			t.Errorf("chunk %d: %d packets, %d chunks", perChunk, tr.PacketsDone(), tr.ChunksDone())
		}
	}
}

func TestTrackerEmpty(t *testing.T) {
	tr := newTracker(NewGeometry(0, 4096, 16))
	if !tr.AllSet() || tr.ChunksDone() != 0 || tr.PacketsDone() != 0 {
		t.Error("a message without bytes is not complete")
	}
	if dup := tr.First(0, 1) | tr.Repair(0, 1); dup != 0 || !tr.AllSet() {
		t.Error("a message without bytes took a packet")
	}
}

// A tracker goes from message to message.
func TestTrackerBindsAgain(t *testing.T) {
	g := packetsGeometry(100, 16)
	tr, mem := new(Tracker), make([]uint64, TrackerWords(g))
	for range 2 {
		tr.Bind(g, mem)
		if tr.ChunksDone() != 0 || tr.PacketsDone() != 0 || tr.AllSet() {
			t.Fatalf("%d chunks, %d packets after Bind", tr.ChunksDone(), tr.PacketsDone())
		}
		for w := range 2 {
			tr.First(w, ^uint64(0))
			tr.Repair(w, ^uint64(0))
		}
		if !tr.AllSet() {
			t.Fatal("incomplete")
		}
	}
}

// Chunks counted before the message was shrunk are not counted after it, and
// the new last chunk completes if its packets are in.
func TestShrinkUncountsAndCompletes(t *testing.T) {
	for _, perChunk := range chunkSizes {
		n := 4 * perChunk
		tr := newTracker(packetsGeometry(n, perChunk))
		for p := range n {
			if p == perChunk+perChunk/2 { // chunk 1 lacks one packet, others are full
				continue
			}
			tr.First(p/64, 1<<(p%64))
		}
		if tr.ChunksDone() != 3 {
			t.Fatalf("chunk %d: %d done before", perChunk, tr.ChunksDone())
		}
		tr.Shrink(packetsGeometry(perChunk+perChunk/2, perChunk))
		want := tr.Geometry().Chunks()
		if tr.ChunksDone() != want || !tr.AllSet() || tr.Chunks().Len() != want || tr.Chunks().Count() != want {
			t.Errorf("chunk %d: %d done of %d, all %v", perChunk, tr.ChunksDone(), want, tr.AllSet())
		}
		tr.Shrink(packetsGeometry(0, perChunk))
		if tr.ChunksDone() != 0 || !tr.AllSet() {
			t.Errorf("chunk %d: %d done of none", perChunk, tr.ChunksDone())
		}
	}
}

func TestShrinkKeepsUnits(t *testing.T) {
	tr := newTracker(NewGeometry(1<<20, 4096, 16))
	wantPanic(t, func() { tr.Shrink(NewGeometry(1<<10, 1024, 16)) })
	wantPanic(t, func() { tr.Shrink(NewGeometry(1<<10, 4096, 8)) })
	tr.Shrink(NewGeometry(2<<20, 4096, 16))
	if tr.Geometry().Length() != 1<<20 {
		t.Errorf("a longer geometry was taken: %d bytes", tr.Geometry().Length())
	}
	tr.Shrink(NewGeometry(1<<20-1, 4096, 16)) // the last packet gets shorter
	if g := tr.Geometry(); g.Length() != 1<<20-1 || g.Packets() != 256 {
		t.Errorf("%d bytes, %d packets", g.Length(), g.Packets())
	}
}
