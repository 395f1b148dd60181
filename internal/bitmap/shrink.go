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
	for step := 0; t.shrinkStep(step, g); step++ {
	}
}

// shrinkStep does one step of Shrink and reports whether there is another, so
// that tests can run writers and readers between any two.
func (t *Tracker) shrinkStep(step int, g Geometry) (more bool) {
	switch step {
	case 0:
		return t.limitPackets(g)
	case 1:
		t.dropChunks(g)
	case 2:
		t.chunks.truncate(g.chunks)
	case 3:
		t.completeLast(g)
		return false
	}
	return true
}

// limitPackets makes writers obey the new end. From then on, a writer that sets
// a chunk bit beyond it takes it back (takeBack).
func (t *Tracker) limitPackets(g Geometry) bool {
	if !t.packets.First.truncate(g.packets) {
		return false
	}
	t.packets.Repair.truncate(g.packets)
	return true
}

// dropChunks clears and uncounts the chunk bits that were set beyond the new
// end before. Only then may readers see it.
func (t *Tracker) dropChunks(g Geometry) {
	for w := g.chunks / wordBits; w < len(t.chunks.words); w++ {
		if n := t.chunks.retract(w, ^below(g.chunks-w*wordBits)); n != 0 {
			t.done.Add(int64(-n))
		}
	}
}

// completeLast sets the bit of the last chunk if all that is left of it is in:
// no packet may be to come whose writer would notice.
func (t *Tracker) completeLast(g Geometry) {
	if t.packets.First.words == nil {
		return // whoever keeps the packets pushes the chunk
	}
	if last := g.chunks - 1; last >= 0 && t.chunkFull(last, g.packets) {
		t.setChunks(last/wordBits, 1<<(uint(last)%wordBits), g.packets)
	}
}
