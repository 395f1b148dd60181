// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// A crowd delivers every packet of a message at once: first-pass writers, each
// the owner of every k-th word, lose some packets, repeat some, and gather the
// rest in pieces; repair writers deliver everything, from different places.
type crowd struct {
	tr            *Tracker
	packets       int
	first, repair int
	fresh         atomic.Int64 // packets not reported as duplicates
}

func (c *crowd) run(rng *rand.Rand, during func()) {
	var wg sync.WaitGroup
	for k := range c.first {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		wg.Go(func() { c.firstPass(own, k) })
	}
	for range c.repair {
		own := rand.New(rand.NewPCG(rng.Uint64(), 2))
		wg.Go(func() { c.repairAll(own) })
	}
	during()
	wg.Wait()
}

func (c *crowd) firstPass(rng *rand.Rand, k int) {
	for w := k; w < Words(c.packets); w += c.first {
		cut := rng.IntN(64)
		lost := rng.Uint64() & rng.Uint64()
		for _, b := range []uint64{below(cut), ^below(cut), rng.Uint64()} {
			b &= below(c.packets-w*64) &^ lost
			c.fresh.Add(int64(bits.OnesCount64(b &^ c.tr.First(w, b))))
		}
	}
}

func (c *crowd) repairAll(rng *rand.Rand) {
	n := c.packets
	start := rng.IntN(n)
	for i := range n {
		p := (start + i) % n
		if rng.IntN(2) == 0 {
			if !c.tr.RepairOne(p) {
				c.fresh.Add(1)
			}
			continue
		}
		b := (rng.Uint64() | 1<<(p%64)) & below(n-p/64*64)
		c.fresh.Add(int64(bits.OnesCount64(b &^ c.tr.Repair(p/64, b))))
	}
}

func raceRounds() int {
	if testing.Short() {
		return 2
	}
	return 8
}

// However writers interleave, the message completes and each chunk counts once.
func TestTrackerConcurrent(t *testing.T) {
	rng := newRand(t)
	for range raceRounds() {
		for _, perChunk := range chunkSizes {
			n := 1 + rng.IntN(1500)
			g := packetsGeometry(n, perChunk)
			c := &crowd{tr: newTracker(g), packets: n, first: 1 + rng.IntN(4), repair: 1 + rng.IntN(3)}
			c.run(rng, func() { watch(t, c.tr) })
			if !c.tr.AllSet() || c.tr.ChunksDone() != g.Chunks() || !c.tr.Chunks().AllSet() || !c.tr.Packets().AllSet() {
				t.Fatalf("%d packets in chunks of %d: all %v, %d chunks of %d, %d set, %d packets", n, perChunk,
					c.tr.AllSet(), c.tr.ChunksDone(), g.Chunks(), c.tr.Chunks().Count(), c.tr.PacketsDone())
			}
			if f := c.fresh.Load(); f > int64(n) {
				t.Fatalf("%d packets in chunks of %d: %d reported as new", n, perChunk, f)
			}
		}
	}
}

// watch reads t while it fills up: a chunk bit is never ahead of its packets,
// the count never ahead of the bits, and all set means all set.
func watch(t *testing.T, tr *Tracker) {
	for range 200 {
		done, set := tr.ChunksDone(), tr.Chunks().Count()
		if done > set {
			t.Errorf("%d chunks counted, %d set", done, set)
		}
		all := tr.AllSet()
		if all && !tr.Packets().AllSet() {
			t.Error("AllSet with a packet missing")
		}
		g := tr.Geometry()
		for c := tr.Chunks().NextSet(0); c < tr.Chunks().Len(); c = tr.Chunks().NextSet(c + 1) {
			r := g.PacketsOfChunk(c)
			if p := tr.Packets().NextMissing(r.From); p < r.To {
				t.Errorf("chunk %d is set without packet %d", c, p)
			}
		}
		if all {
			return
		}
	}
}

// Writers go on while two goroutines shrink the message to two lengths: the
// shorter one holds, and stale chunks are neither visible nor counted.
func TestTrackerConcurrentShrink(t *testing.T) {
	rng := newRand(t)
	for range raceRounds() {
		for _, perChunk := range chunkSizes {
			n := 1 + rng.IntN(3000)
			a, b := rng.IntN(n+1), rng.IntN(n+1)
			c := &crowd{tr: newTracker(packetsGeometry(n, perChunk)), packets: n, first: 1 + rng.IntN(3), repair: 1 + rng.IntN(2)}
			c.run(rng, func() {
				var wg sync.WaitGroup
				wg.Go(func() { c.tr.Shrink(packetsGeometry(a, perChunk)) })
				for range 50 {
					if c.tr.AllSet() && !c.tr.Packets().AllSet() {
						t.Error("AllSet with a packet missing")
					}
				}
				c.tr.Shrink(packetsGeometry(b, perChunk))
				wg.Wait()
			})
			g := packetsGeometry(min(a, b), perChunk)
			if got := c.tr.Geometry(); got != g {
				t.Fatalf("shrunk to %+v, want %+v", got, g)
			}
			if !c.tr.AllSet() || c.tr.ChunksDone() != g.Chunks() || c.tr.Chunks().Len() != g.Chunks() || !c.tr.Chunks().AllSet() {
				t.Fatalf("%d packets, then %d, in chunks of %d: all %v, %d done of %d", n, g.Packets(), perChunk,
					c.tr.AllSet(), c.tr.ChunksDone(), g.Chunks())
			}
			for w, word := range c.tr.chunks.words {
				if stale := word &^ below(g.Chunks()-w*64); stale != 0 {
					t.Fatalf("stale chunk bits %x in word %d", stale, w)
				}
			}
		}
	}
}
