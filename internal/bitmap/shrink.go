// SPDX-License-Identifier: Apache-2.0

package bitmap

// Shrink tells t that the message is shorter than the buffer it was bound for.
// g must have the MTU and the chunk size of the geometry that t was bound with,
// or Shrink panics; a g that is not shorter than what t knows changes nothing.
// The last chunk is complete as soon as the packets that are left of it are.
// Packets and chunks beyond the end are ignored from then on.
//
// Shrink may run concurrently with writers, readers and itself. While it runs,
// ChunksDone may be too low, but never too high for the Len of Chunks that was
// loaded before it.
func (t *Tracker) Shrink(g Geometry) {
	if g.mtu != t.geometry.mtu || g.perChunk != t.geometry.perChunk {
		panic("bitmap: shrink must keep MTU and packets per chunk")
	}
	lower(&t.length, int64(g.length))
	if !t.packets.First.truncate(g.packets) {
		return
	}
	t.packets.Repair.truncate(g.packets)

	// From here on a writer that sets a chunk bit beyond the end takes it back
	// itself (setChunks). Clear those that were set before, and only then let
	// readers see the new end.
	for w := g.chunks / wordBits; w < len(t.chunks.words); w++ {
		if n := t.chunks.retract(w, ^below(g.chunks-w*wordBits)); n != 0 {
			t.done.Add(int64(-n))
		}
	}
	t.chunks.truncate(g.chunks)

	if last := g.chunks - 1; last >= 0 && t.chunkFull(last, g.packets) {
		t.setChunks(last/wordBits, 1<<(uint(last)%wordBits), g.packets)
	}
}
