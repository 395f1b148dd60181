// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"sync"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

// A tracker whose packets are kept elsewhere has what is pushed, and no chunk beyond the end.
func TestPush(t *testing.T) {
	const perChunk, mtu = 3, 10
	g := NewGeometry(perChunk*mtu*130-1, mtu, perChunk)
	var tr Tracker
	tr.BindChunks(g, make([]uint64, Words(g.Chunks())))
	if g.Chunks() != 130 || tr.AllSet() || tr.ChunksDone() != 0 || tr.Geometry() != g {
		t.Fatalf("%d chunks, %d done", g.Chunks(), tr.ChunksDone())
	}
	tr.Push(0, 1<<5|1<<63)
	tr.Push(0, 1<<5)
	tr.Push(2, ^uint64(0)) // two of them exist
	if n := tr.ChunksDone(); n != 4 || !tr.Chunks().Has(63) || !tr.Chunks().Has(129) || tr.Chunks().Has(130) || tr.Chunks().Word(2) != 3 {
		t.Errorf("%d chunks, word 2 %#x", n, tr.Chunks().Word(2))
	}

	short := NewGeometry(perChunk*mtu*64-mtu, mtu, perChunk)
	tr.Shrink(short)
	if n := tr.ChunksDone(); n != 2 || tr.Chunks().Len() != 64 {
		t.Errorf("%d of %d chunks after Shrink, want 2 of 64", n, tr.Chunks().Len())
	}
	tr.Push(1, ^uint64(0))
	tr.Push(0, ^uint64(0))
	if !tr.AllSet() || tr.ChunksDone() != 64 {
		t.Errorf("%d of 64 chunks", tr.ChunksDone())
	}

	tr.BindChunks(g, make([]uint64, Words(g.Chunks()))) // for another message
	if tr.AllSet() || tr.ChunksDone() != 0 || tr.Geometry() != g {
		t.Errorf("%d of %d chunks before anything was pushed", tr.ChunksDone(), tr.Geometry().Chunks())
	}
}

// However pushes and a Shrink fall together, what is left is counted once.
func TestPushRacesShrink(t *testing.T) {
	g, short := NewGeometry(units.Bytes(200), 1, 1), NewGeometry(units.Bytes(100), 1, 1)
	for range 2000 {
		var tr Tracker
		tr.BindChunks(g, make([]uint64, Words(g.Chunks())))
		var wg sync.WaitGroup
		for w := range Words(g.Chunks()) {
			wg.Go(func() { tr.Push(w, ^uint64(0)) })
		}
		tr.Shrink(short)
		wg.Wait()
		if !tr.AllSet() || tr.ChunksDone() != 100 || tr.Chunks().Count() != 100 {
			t.Fatalf("%d chunks, %d bits, all %v", tr.ChunksDone(), tr.Chunks().Count(), tr.AllSet())
		}
	}
}
