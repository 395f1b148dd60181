// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/units"
)

// newRand returns a random source whose seed is printed if the test fails, and can be given back in
// DPA_SEED.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DPA_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "DPA_SEED")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with DPA_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// A modelQP is an sdr QP, with what must be in its bitmaps after each batch.
type modelQP struct {
	slots    *Slots
	first    int // cookie of channel 0
	channels int
	home     []int // worker of each channel
	msgs     []*modelMessage
}

type modelMessage struct {
	m          *Message
	set, first map[int]bool
	marks      []Mark
	next       int // packet, when in order
}

func newModelQP(rng *rand.Rand, split Split, first, channels, messages int) *modelQP {
	q := &modelQP{slots: NewSlots(split, channels), first: first, channels: channels}
	for range channels {
		q.home = append(q.home, rng.IntN(2))
	}
	for i := range messages {
		g := bitmap.NewGeometry(units.Bytes(1+rng.IntN(400*mtu)), mtu, 1+rng.IntN(70))
		x := &modelMessage{
			m:   &Message{Seq: uint64(i), Label: uint32(i), Start: i % channels, Arrivals: NewArrivals(channels)},
			set: map[int]bool{}, first: map[int]bool{}, marks: make([]Mark, channels),
		}
		x.m.Open(g, split, make([]uint64, bitmap.TrackerWords(g)))
		q.slots.Set(x.m.Seq, x.m)
		q.msgs = append(q.msgs, x)
	}
	return q
}

// packet makes a completion, and records what must come of it.
func (q *modelQP) packet(rng *rand.Rand, inOrder bool) (c backend.Completion, dup, repair uint64) {
	x := q.msgs[rng.IntN(len(q.msgs))]
	g := x.m.Tracker.Geometry()
	p := rng.IntN(g.Packets())
	if inOrder {
		p, x.next = x.next%g.Packets(), x.next+1
	}
	ch := (x.m.Start + p/64) % q.channels
	home := ch
	if rng.IntN(20) == 0 {
		ch = rng.IntN(q.channels)
	}
	sp := q.slots.Split
	c = backend.Completion{Kind: backend.KindWrite, Cookie: uint32(q.first + ch), Imm: sp.Imm(int(x.m.Seq), p, 0), Len: uint32(g.PacketLen(p))}
	if x.set[p] {
		dup = 1
	}
	x.set[p] = true
	if ch == home && q.home[ch] == 0 {
		x.first[p] = true
	} else {
		repair = 1
	}
	if k := &x.marks[ch]; q.home[ch] == 0 {
		*k = Mark{Label: x.m.Label, Offset: uint32(p), Count: k.Count + 1, Valid: true}
	}
	return c, dup, repair
}

func (q *modelQP) check(t *testing.T) {
	t.Helper()
	for _, x := range q.msgs {
		pair := x.m.Tracker.Packets()
		for p := range x.m.Tracker.Geometry().Packets() {
			if x.set[p] != pair.Has(p) || x.first[p] && !pair.First.Has(p) {
				t.Fatalf("message %d, packet %d: %v, in the first-pass map %v; want %v, %v", x.m.Seq, p, pair.Has(p), pair.First.Has(p), x.set[p], x.first[p])
			}
		}
		for ch, want := range x.marks {
			require.Equal(t, want, x.m.Arrivals.Mark(ch), "message %d, channel %d", x.m.Seq, ch)
		}
	}
}

// However messages, queue pairs of different splits, channels, workers and repairs are mixed, after each
// batch the bitmaps, marks and counts are those of one packet after the other.
func TestGatherAgainstModel(t *testing.T) {
	rng := newRand(t)
	rounds := 40
	if race.Enabled { // one goroutine does all
		rounds = 8
	}
	for round := range rounds {
		var w Worker
		var chans []*Channel
		var qps []*modelQP
		for _, split := range []Split{DefaultSplit, {8, 22, 2}, {8, 16, 8}, {14, 18, 0}}[:1+round%4] {
			q := newModelQP(rng, split, len(chans), 1+rng.IntN(5), 1+rng.IntN(100))
			for i, home := range q.home {
				chans = append(chans, &Channel{Slots: q.slots, Index: i, Home: home})
			}
			qps = append(qps, q)
		}
		var packets, dups, repairs uint64
		for batch := range 50 {
			comps := make([]backend.Completion, rng.IntN(400))
			for i := range comps {
				var dup, repair uint64
				comps[i], dup, repair = qps[rng.IntN(len(qps))].packet(rng, batch%3 > 0)
				dups, repairs = dups+dup, repairs+repair
			}
			packets += uint64(len(comps))
			w.Enter()
			require.Zero(t, w.Process(0, NewChannels(chans...), comps, make([]int, len(comps))))
			w.Leave()
			require.Equal(t, packets, w.Counters.Packets.Load(), "packets")
			require.Equal(t, dups, w.Counters.Duplicates.Load(), "duplicates")
			require.Equal(t, repairs, w.Counters.Repairs.Load(), "repairs")
			if batch%10 == 9 {
				for _, q := range qps {
					q.check(t)
				}
			}
		}
	}
}

// Whoever reads a mark finds the bits of all packets before it: on the channel of an in-order path
// nothing is missing below a mark, at any moment.
func TestMarkIsNeverAhead(t *testing.T) {
	rng := newRand(t)
	const messages, packets = 100, 1000
	s := NewSlots(DefaultSplit, 1)
	chans := NewChannels(&Channel{Slots: s})
	g := bitmap.NewGeometry(packets*mtu, mtu, 16)
	var msgs []*Message
	var comps []backend.Completion
	for i := range messages {
		m := &Message{Seq: uint64(i), Arrivals: NewArrivals(1)}
		m.Open(g, DefaultSplit, make([]uint64, bitmap.TrackerWords(g)))
		s.Set(m.Seq, m)
		msgs = append(msgs, m)
	}
	next := make([]int, messages)
	for left := messages * packets; left > 0; {
		i := rng.IntN(1 + rng.IntN(messages)) // now a few at a time, now many
		for range min(packets-next[i], 1+rng.IntN(5)) {
			comps = append(comps, data(0, i, next[i], mtu))
			next[i]++
			left--
		}
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() { watchMarks(t, msgs, done) })
	var w Worker
	for rest := make([]int, 256); len(comps) > 0; {
		n := min(256, len(comps))
		w.Enter()
		w.Process(0, chans, comps[:n], rest)
		w.Leave()
		comps = comps[n:]
	}
	close(done)
	wg.Wait()
	for _, m := range msgs {
		require.Equal(t, Mark{Offset: packets - 1, Count: packets, Valid: true}, m.Arrivals.Mark(0))
	}
}

func watchMarks(t *testing.T, msgs []*Message, done <-chan struct{}) {
	for {
		for _, m := range msgs {
			k := m.Arrivals.Mark(0)
			if missing := m.Tracker.Packets().NextMissing(0); k.Valid && missing <= int(k.Offset) {
				t.Errorf("message %d: marked up to %d, and %d is missing", m.Seq, k.Offset, missing)
				return
			}
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// Where gathering doesn't pay the worker stops it, and resumes it when it does.
func TestGatherAdapts(t *testing.T) {
	rng := newRand(t)
	s := NewSlots(DefaultSplit, 1)
	chans := NewChannels(&Channel{Slots: s})
	const messages = 1024
	g := bitmap.NewGeometry(4096*mtu, mtu, 16)
	for i := range messages {
		m := &Message{Seq: uint64(i), Arrivals: NewArrivals(1)}
		m.Open(g, DefaultSplit, make([]uint64, bitmap.TrackerWords(g)))
		s.Set(m.Seq, m)
	}
	var w Worker
	comps, rest := make([]backend.Completion, 256), make([]int, 256)
	alone := 0
	for range 2 * retry {
		for i := range comps {
			comps[i] = data(0, rng.IntN(messages), rng.IntN(4096), mtu)
		}
		w.Process(0, chans, comps, rest)
		if w.gather.alone {
			alone++
		}
	}
	require.Greater(t, alone, retry)
	for batch := range 2 * retry {
		for i := range comps {
			comps[i] = data(0, 1, batch*64%4096+i%64, mtu)
		}
		w.Process(0, chans, comps, rest)
	}
	require.False(t, w.gather.alone)
}
