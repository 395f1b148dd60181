// SPDX-License-Identifier: Apache-2.0

//go:build !race

package bitmap

import (
	"fmt"
	"math/bits"
	"testing"
)

// The tests in this file run the atomic steps of writers, a Shrink and a reader
// in every order. Real threads meet the rare orders too seldom to be a test. One
// goroutine does it all, so the race detector has nothing to find, slowly.

// everyOrder calls run with each order of procs: order[i] is the process whose
// next step comes i-th, and process p has steps[p] steps.
func everyOrder(steps []int, run func(order []int)) {
	left := append([]int(nil), steps...)
	var order []int
	var extend func()
	extend = func() {
		last := true
		for p := range left {
			if left[p] == 0 {
				continue
			}
			last = false
			left[p]--
			order = append(order, p)
			extend()
			order = order[:len(order)-1]
			left[p]++
		}
		if last {
			run(order)
		}
	}
	extend()
}

// A writer delivers packets of one word in steps, as First and Repair do.
type writer struct {
	repair bool
	bits   uint64 // in word 0

	// state between steps
	at     int
	limit  int
	done   uint64
	turned uint64
	n      int
}

const writerSteps = 5

func (w *writer) step(tr *Tracker) {
	switch w.at++; w.at {
	case 1:
		if w.repair {
			tr.packets.Repair.Or(0, w.bits)
		} else {
			tr.packets.First.publish(0, w.bits)
		}
	case 2:
		w.limit = tr.packets.Len()
		for c := range chunksFor(w.limit, tr.geometry.perChunk) {
			if tr.chunkFull(c, w.limit) {
				w.done |= 1 << c
			}
		}
	case 3:
		w.turned = w.done &^ tr.chunks.Or(0, w.done)
	case 4:
		w.n = bits.OnesCount64(w.turned) - tr.takeBack(0, w.turned, w.limit)
	case 5:
		tr.done.Add(int64(w.n))
	}
}

// A shrinker runs Shrink in steps.
type shrinker struct {
	to   Geometry
	at   int
	over bool // the rest of the steps do nothing
}

const shrinkSteps = 4

func (s *shrinker) step(tr *Tracker) {
	if !s.over {
		s.over = !tr.shrinkStep(s.at, s.to)
		s.at++
	}
}

// A reader runs AllSet in steps.
type reader struct {
	at, len int
	all     bool
}

const readerSteps = 2

func (r *reader) step(tr *Tracker) {
	switch r.at++; r.at {
	case 1:
		r.len = tr.chunks.Len()
	case 2:
		r.all = tr.doneIs(r.len)
	}
}

// stepCase is a message of packets, of which before are in, shrunk to a new
// end, while two writers deliver bits: all packets below the new end arrive.
type stepCase struct {
	packets, perChunk, to int
	before, first, repair uint64
}

var stepCases = []stepCase{
	{4, 2, 2, 0b0000, 0b1111, 0b0011},
	{4, 2, 2, 0b0101, 0b0010, 0b1010},
	{4, 2, 3, 0b0011, 0b0100, 0b1000},
	{4, 2, 1, 0b1110, 0b0001, 0b0001},
	{4, 1, 2, 0b0001, 0b1110, 0b0110},
	{6, 3, 4, 0b000111, 0b001000, 0b110000},
	{6, 3, 0, 0b000000, 0b111111, 0b111111},
	{6, 3, 6, 0b000000, 0b101010, 0b010101}, // no shorter
}

func (c stepCase) bind(tr *Tracker, mem []uint64) {
	tr.Bind(packetsGeometry(c.packets, c.perChunk), mem)
	if c.before != 0 {
		tr.First(0, c.before)
	}
}

func (c stepCase) String() string {
	return fmt.Sprintf("%d packets in chunks of %d shrunk to %d, %b + %b + %b", c.packets, c.perChunk, c.to, c.before, c.first, c.repair)
}

// In the end every chunk below the end is set and counted, and no other.
func (c stepCase) checkEnd(t *testing.T, tr *Tracker, order []int) {
	t.Helper()
	want := chunksFor(min(c.to, c.packets), c.perChunk)
	if tr.done.Load() != int64(want) || tr.chunks.words[0] != below(want) || tr.chunks.Len() != want || !tr.AllSet() {
		t.Fatalf("%v, order %v: %d counted, bits %b, Len %d, want %d", c, order, tr.done.Load(), tr.chunks.words[0], tr.chunks.Len(), want)
	}
}

func TestEveryOrderOfTwoWritersAndShrink(t *testing.T) {
	tr, mem := new(Tracker), make([]uint64, 3)
	for _, c := range stepCases {
		to := packetsGeometry(c.to, c.perChunk)
		everyOrder([]int{writerSteps, writerSteps, shrinkSteps}, func(order []int) {
			c.bind(tr, mem)
			a, b, s := writer{bits: c.first}, writer{bits: c.repair, repair: true}, shrinker{to: to}
			for _, p := range order {
				switch p {
				case 0:
					a.step(tr)
				case 1:
					b.step(tr)
				case 2:
					s.step(tr)
				}
				if tr.AllSet() && !tr.packets.AllSet() {
					t.Fatalf("%v, order %v: AllSet with a packet missing", c, order)
				}
			}
			c.checkEnd(t, tr, order)
		})
	}
}

func TestEveryOrderOfReaderAndShrink(t *testing.T) {
	tr, mem := new(Tracker), make([]uint64, 3)
	for _, c := range stepCases {
		to := packetsGeometry(c.to, c.perChunk)
		everyOrder([]int{writerSteps, readerSteps, shrinkSteps}, func(order []int) {
			c.bind(tr, mem)
			a, r, s := writer{bits: c.first}, reader{}, shrinker{to: to}
			for _, p := range order {
				switch p {
				case 0:
					a.step(tr)
				case 1:
					r.step(tr)
				case 2:
					s.step(tr)
				}
				if r.all && !tr.packets.AllSet() {
					t.Fatalf("%v, order %v: AllSet with a packet missing", c, order)
				}
			}
		})
	}
}

// A writer that looked before the message was shrunk, and publishes and
// coalesces after it, sets no chunk beyond the end.
func TestCoalesceAfterShrink(t *testing.T) {
	for _, perChunk := range chunkSizes {
		for _, to := range []int{0, 1, perChunk, perChunk + 1} {
			tr := newTracker(packetsGeometry(2*perChunk+1, perChunk))
			tr.Shrink(packetsGeometry(to, perChunk))
			for w := range tr.packets.First.words {
				tr.packets.First.publish(w, ^uint64(0))
				tr.coalesce(w, ^uint64(0), ^uint64(0))
			}
			want := chunksFor(to, perChunk)
			if got := tr.chunks.words[0]; tr.ChunksDone() != want || got != below(want) {
				t.Errorf("chunks of %d shrunk to %d packets: %d done, bits %x, want %d", perChunk, to, tr.ChunksDone(), got, want)
			}
		}
	}
}
