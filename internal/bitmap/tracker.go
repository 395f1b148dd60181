// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Tracker is the arrival state of one message: its packet bitmaps, and the
// chunk bitmap that follows from them. All methods except Bind may run
// concurrently, under the one-writer rule of First. A Tracker must not be
// copied once it is bound.
//
// The rule that makes it lock-free: a writer first publishes its packet bits
// and then looks at the union of both maps. Of the writers that complete a
// chunk, the one whose publication comes last in the (single) order of atomic
// operations sees the chunk full and sets its bit; others may see it as well,
// and set the same bit. A duplicate repeats the look. Whoever turned the bit
// from 0 to 1 counts it.
type Tracker struct {
	geometry Geometry // as bound; its packets and chunks may be out of date
	length   atomic.Int64
	packets  Pair // First.Len is the limit that writers obey
	chunks   Map  // Len follows, once no stale bit is left beyond it

	_    [64]byte // keeps the counter off the line that every writer reads
	done atomic.Int64
}

// TrackerWords returns the memory that a Tracker of geometry g needs.
func TrackerWords(g Geometry) int { return 2*Words(g.packets) + Words(g.chunks) }

// Bind makes t the state of a new message of geometry g, in memory that the
// caller provides and must not touch while t is in use: the words of the
// first-pass, repair and chunk maps, in this order. It panics if mem is shorter
// than TrackerWords(g). It must not run concurrently with any other use of t or
// of mem.
func (t *Tracker) Bind(g Geometry, mem []uint64) {
	if len(mem) < TrackerWords(g) {
		panic("bitmap: too few words for the tracker")
	}
	n := Words(g.packets)
	t.geometry = g
	t.length.Store(int64(g.length))
	t.packets.First.Bind(mem[:n], g.packets)
	t.packets.Repair.Bind(mem[n:2*n], g.packets)
	t.chunks.Bind(mem[2*n:], g.chunks)
	t.done.Store(0)
}

// BindChunks is Bind for a message whose packet bitmaps are kept elsewhere: t has chunk bits only, in mem, which
// has at least Words(g.Chunks()) words. They come by Push; Packets, First and Repair must not be used.
func (t *Tracker) BindChunks(g Geometry, mem []uint64) {
	t.geometry = g
	t.length.Store(int64(g.length))
	t.packets.First.words, t.packets.Repair.words = nil, nil
	t.packets.First.n.Store(int64(g.packets))
	t.packets.Repair.n.Store(int64(g.packets))
	t.chunks.Bind(mem, g.chunks)
	t.done.Store(0)
}

// Push records that the chunks of word w named by bits are full, of a message that was bound with BindChunks.
// Chunks beyond the end of the message are ignored. Any number of goroutines may call it.
func (t *Tracker) Push(w int, bits uint64) {
	limit := t.packets.Len()
	t.setChunks(w, bits&below(chunksFor(limit, t.geometry.perChunk)-w*wordBits), limit)
}

// First records that the packets of word w named by bits arrived as a first
// pass, sets the bits of the chunks that this completes, and returns the
// packets that had already arrived in either way. Packets beyond the end of the
// message are ignored.
//
// Each word has one writer at a time, which must be the owner of the word's
// home channel: a second one would clear bits that others have seen (see
// [Map.Publish]). Different words are independent.
//
// When the same packet arrives in both ways at the same moment, both calls may
// call it a duplicate. It is never new to both, so packets counted by !dup are
// never too many.
func (t *Tracker) First(w int, bits uint64) (dup uint64) {
	if bits &= below(t.packets.Len() - w*wordBits); bits == 0 {
		return 0
	}
	old := t.packets.First.publish(w, bits)
	old |= t.packets.Repair.load(w)
	t.coalesce(w, bits, old|bits)
	return old & bits
}

// Repair records that the packets of word w named by bits arrived in any other
// way than as a first pass; otherwise it is like First. Any number of
// goroutines may call it, for any word.
func (t *Tracker) Repair(w int, bits uint64) (dup uint64) {
	if bits &= below(t.packets.Len() - w*wordBits); bits == 0 {
		return 0
	}
	old := t.packets.Repair.Or(w, bits)
	old |= t.packets.First.load(w)
	t.coalesce(w, bits, old|bits)
	return old & bits
}

// RepairOne is Repair for one packet.
func (t *Tracker) RepairOne(packet int) (dup bool) {
	return t.Repair(packet/wordBits, 1<<(uint(packet)%wordBits)) != 0
}

// Packets returns the packet bitmaps, to be read only.
func (t *Tracker) Packets() *Pair { return &t.packets }

// Chunks returns the chunk bitmap, to be read only.
func (t *Tracker) Chunks() *Map { return &t.chunks }

// Geometry returns the geometry of the message as it is now known.
func (t *Tracker) Geometry() Geometry {
	length := units.Bytes(t.length.Load())
	if length == t.geometry.length {
		return t.geometry
	}
	return NewGeometry(length, t.geometry.mtu, t.geometry.perChunk)
}

// ChunksDone returns how many chunk bits are set. It costs one load. A bit
// shows up here a moment after it shows up in Chunks, never before.
func (t *Tracker) ChunksDone() int { return int(max(0, t.done.Load())) }

// PacketsDone returns how many packets are in. It reads all words: a counter
// would cost every word an atomic addition.
func (t *Tracker) PacketsDone() int { return t.packets.Count() }

// AllSet reports whether all packets of the message are in and all its chunk
// bits are set. It costs two loads, and is true of a message without bytes.
func (t *Tracker) AllSet() bool {
	// Len is loaded first: it is lowered only when done has ceased to count what
	// lies beyond it.
	return t.doneIs(t.chunks.Len())
}

func (t *Tracker) doneIs(chunks int) bool { return t.done.Load() == int64(chunks) }

// coalesce sets the bits of the full chunks among those that the packets of
// word w named by touched belong to; seen is the union of both maps in w, read
// after touched was published. The limit is read here, after the publication:
// either this writer sees a Shrink, or Shrink sees its bits.
func (t *Tracker) coalesce(w int, touched, seen uint64) {
	limit := t.packets.Len()
	if t.geometry.shift <= maxShift {
		t.coalesceWithin(w, seen, limit)
	} else {
		t.coalesceAcross(w, touched, limit)
	}
}

// coalesceWithin is coalesce for chunks that lie within a word. It handles the
// whole word, touched or not: it costs less than telling them apart.
func (t *Tracker) coalesceWithin(w int, seen uint64, limit int) {
	g := &t.geometry
	shift := g.shift & 7 // tells the compiler that shifts are in range
	live := below(limit - w*wordBits)

	// After the loop, bit i says that bits i to i+perChunk-1 are all set. What
	// lies beyond the message is never missing.
	full := seen | ^live
	for s := uint8(0); s < shift; s++ {
		full &= full >> (1 << s)
	}
	full &= g.heads & live

	// Squeeze the heads together: 64/perChunk chunks, in one word.
	done := full
	if shift != 0 {
		for done = 0; full != 0; full &= full - 1 {
			done |= 1 << (uint(bits.TrailingZeros64(full)) >> shift)
		}
	}
	first := w << (maxShift - shift)
	t.setChunks(first/wordBits, done<<(uint(first)%wordBits), limit)
}

// coalesceAcross is coalesce for chunks of any other size: longer than a word,
// or not aligned with words.
func (t *Tracker) coalesceAcross(w int, touched uint64, limit int) {
	g := &t.geometry
	base := w * wordBits
	if limit <= base {
		return // shrunk since the caller looked
	}
	last := g.ChunkOf(min(base+bits.Len64(touched), limit) - 1)
	var word int
	var done uint64
	for c := g.ChunkOf(base + bits.TrailingZeros64(touched)); c <= last; c++ {
		if c/wordBits != word {
			t.setChunks(word, done, limit)
			word, done = c/wordBits, 0
		}
		if t.chunkFull(c, limit) {
			done |= 1 << (uint(c) % wordBits)
		}
	}
	t.setChunks(word, done, limit)
}

// chunkFull reports whether the packets of chunk c that are below limit are in.
func (t *Tracker) chunkFull(c, limit int) bool {
	from := c * t.geometry.perChunk
	to := from + min(t.geometry.perChunk, limit-from)
	return full(t.packets.First.words, t.packets.Repair.words, from, to)
}

// setChunks sets the chunk bits done in word w, found full while the message
// had limit packets, and counts those that it turned.
func (t *Tracker) setChunks(w int, done uint64, limit int) {
	if done == 0 {
		return
	}
	if turned := done &^ t.chunks.Or(w, done); turned != 0 {
		t.done.Add(int64(bits.OnesCount64(turned) - t.takeBack(w, turned, limit)))
	}
}

// takeBack clears those of the chunk bits turned in word w that a Shrink since
// limit was read has put beyond the end, where Shrink itself may have looked
// already. It returns how many it cleared: whoever clears a bit uncounts it.
func (t *Tracker) takeBack(w int, turned uint64, limit int) int {
	now := t.packets.Len()
	if now == limit {
		return 0
	}
	end := chunksFor(now, t.geometry.perChunk)
	if stale := turned &^ below(end-w*wordBits); stale != 0 {
		return t.chunks.retract(w, stale)
	}
	return 0
}
