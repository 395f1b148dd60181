// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// benchPackets is how many packets all messages of a benchmark have together. Their completions,
// 4 MiB, lie in the last-level cache, where a NIC writes them, and not in a core's own.
const benchPackets = 1 << 16

// benchBatch is how many completions a worker of package sdr takes at once.
const benchBatch = 256

const (
	benchMTU      = 4096
	benchChannels = 4
	wordPackets   = 64
)

// A pattern is the order in which completions arrive, and which of them are strange.
type pattern struct {
	name string
	// run is how many packets of a message come before the next message's turn, when they come in
	// order. Package sdr sends runs of 64, which several channels mix in the network.
	run           int
	shuffled      bool
	duplicates    float64
	stale         float64
	repair        bool
	messages, ppc int
}

var inOrder = pattern{name: "inorder", run: wordPackets}

var patterns = []pattern{
	inOrder,
	{name: "mixed", run: 1},
	{name: "shuffled", run: 1, shuffled: true},
	{name: "dup1%", run: wordPackets, duplicates: 0.01},
	{name: "stale1%", run: wordPackets, stale: 0.01},
	{name: "repair", run: wordPackets, repair: true},
	{name: "repair-mixed", run: 1, repair: true},
	{name: "repair-shuffled", run: 1, shuffled: true, repair: true},
}

// An arrival is a completion to be.
type arrival struct{ message, packet, gen int }

// arrivals returns what arrives, in order.
func (p pattern) arrivals(rng *rand.Rand) []arrival {
	per := benchPackets / p.messages
	run := min(p.run, per)
	var a []arrival
	add := func(x arrival) {
		a = append(a, x)
		if rng.Float64() < p.duplicates {
			a = append(a, a[rng.IntN(len(a))])
		}
		if rng.Float64() < p.stale {
			a = append(a, arrival{x.message, x.packet, 1})
		}
	}
	for first := 0; first < per; first += run {
		for m := range p.messages {
			for i := range run {
				add(arrival{m, first + i, 0})
			}
		}
	}
	if p.shuffled {
		rng.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] })
	}
	return a
}

// An engine is a worker with a ring, its messages and channels.
type engine struct {
	worker   Worker
	slots    *Slots
	channels *Channels
	messages []*Message
	memory   [][]uint64
	geometry bitmap.Geometry
	ring     cqRing
	comps    [benchBatch]backend.Completion
	rest     [benchBatch]int
}

func newEngine(p pattern, ring cqRing) *engine {
	e := &engine{slots: NewSlots(DefaultSplit, benchChannels), ring: ring}
	home := 0
	if p.repair {
		home = 1
	}
	var channels []*Channel
	for gen := range uint32(2) {
		for c := range benchChannels {
			channels = append(channels, &Channel{Slots: e.slots, Gen: gen, Index: c, Home: home})
		}
	}
	e.channels = NewChannels(channels...)
	e.geometry = bitmap.NewGeometry(benchMTU*units.Bytes(benchPackets/p.messages), benchMTU, p.ppc)
	for i := range p.messages {
		m := &Message{Seq: uint64(i), Start: i % benchChannels, Arrivals: NewArrivals(benchChannels)}
		e.messages = append(e.messages, m)
		e.memory = append(e.memory, make([]uint64, bitmap.TrackerWords(e.geometry)))
		e.slots.Set(m.Seq, m)
	}
	for _, a := range p.arrivals(rand.New(rand.NewPCG(1, 2))) {
		cookie := a.gen*benchChannels + (e.messages[a.message].Start+a.packet/wordPackets)%benchChannels
		ring.produce(uint32(cookie), DefaultSplit.Imm(a.message, a.packet, 0), benchMTU)
	}
	return e
}

// open makes all messages new.
func (e *engine) open() {
	for i, m := range e.messages {
		m.Open(e.geometry, DefaultSplit, e.memory[i])
	}
	e.ring.rewind()
}

// batch polls and processes once, as a worker does.
func (e *engine) batch(now units.Instant) int {
	e.worker.Enter()
	n := e.ring.poll(e.comps[:])
	e.worker.Process(now, e.channels, e.comps[:n], e.rest[:])
	e.worker.Leave()
	return n
}

// threadTime is the CPU time of this thread: on a machine that others use too, it says what a core of
// one's own would do.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	// Not getrusage, which is out of date by up to a tick.
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

func benchmarkEngine(b *testing.B, p pattern, ring cqRing) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e := newEngine(p, ring)
	e.open()
	b.ReportAllocs()
	b.ResetTimer()
	begin, left := threadTime(b), 0
	for n := 0; n < b.N; n += left {
		if left = e.batch(1); left == 0 {
			e.open()
		}
	}
	b.ReportMetric(float64(b.N)/(threadTime(b)-begin).Seconds()/1e6, "Mcompl/cpu-s")
}

var rings = []struct {
	name string
	make func(n int) cqRing
}{
	{"rxe", func(n int) cqRing { return newRxeRing(n) }},
	{"mlx5", func(n int) cqRing { return newMlx5Ring(n) }},
}

// BenchmarkEngine follows a completion from the ring to the bitmap. One op is one completion; the
// time to open the messages again after each round is part of it.
func BenchmarkEngine(b *testing.B) {
	for _, r := range rings {
		for _, chunk := range []int{1, 16, 64} {
			for _, p := range patterns {
				benchmarkCase(b, r.name, r.make, p, chunk, 16)
			}
		}
		for _, messages := range []int{1, 64, 256, 1024} {
			for _, p := range patterns {
				benchmarkCase(b, r.name, r.make, p, 16, messages)
			}
		}
	}
}

func benchmarkCase(b *testing.B, name string, ring func(int) cqRing, p pattern, chunk, messages int) {
	p.ppc, p.messages = chunk, messages
	b.Run(fmt.Sprintf("cq=%s/chunk=%d/inflight=%d/%s", name, chunk, messages, p.name), func(b *testing.B) {
		benchmarkEngine(b, p, ring(benchPackets))
	})
}

// BenchmarkDecode is the part of it that decodes.
func BenchmarkDecode(b *testing.B) {
	for _, r := range rings {
		b.Run("cq="+r.name, func(b *testing.B) {
			p := inOrder
			p.ppc, p.messages = 16, 16
			e := newEngine(p, r.make(benchPackets))
			for n := 0; n < b.N; {
				k := e.ring.poll(e.comps[:])
				if n += k; k == 0 {
					e.ring.rewind()
				}
			}
		})
	}
}
