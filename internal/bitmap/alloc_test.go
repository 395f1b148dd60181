// SPDX-License-Identifier: Apache-2.0

//go:build !race

package bitmap

import "testing"

// Nothing allocates, not even binding, because messages are set up at line rate, too.
func TestNoAllocations(t *testing.T) {
	for _, perChunk := range []int{1, 16, 64, 100, 256} {
		g := packetsGeometry(1000, perChunk)
		half := packetsGeometry(500, perChunk)
		tr, mem := new(Tracker), make([]uint64, TrackerWords(g))
		var sink int
		got := testing.AllocsPerRun(10, func() {
			tr.Bind(g, mem)
			for w := range 10 {
				tr.First(w, 0x5555555555555555)
				tr.Repair(w, 0x00ff00ff00ff00ff)
				tr.RepairOne(w * 7)
			}
			p := tr.Packets()
			sink = p.NextMissing(3) + p.NextSet(9) + tr.PacketsDone() + tr.ChunksDone() + tr.Chunks().NextMissing(0)
			tr.Shrink(half)
			sink += tr.Geometry().Packets()
		})
		if got != 0 {
			t.Errorf("chunks of %d: %v allocations", perChunk, got)
		}
	}
}
