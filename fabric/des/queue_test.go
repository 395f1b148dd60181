// SPDX-License-Identifier: Apache-2.0

package des

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func configs() []Config {
	all := []Config{{}, {Heap: true}, {LogBuckets: 6}}
	for _, shift := range []uint{1, 6, 10, 14, 22, MaxShift} {
		all = append(all, Config{Shift: shift}, Config{Shift: shift, LogBuckets: 6})
	}
	return all
}

// load schedules like a network: near events, far ones, many at one time; and changes its density
// by a thousand on the way, so that a queue that adapts has to.
type load struct {
	r    *rand.Rand
	next uint32
}

func (l *load) event(now Time) Event {
	var d Time
	switch l.r.IntN(20) {
	case 0:
		d = 0
	case 1:
		d = Time(l.r.Int64N(1e9)) // far
	case 2, 3, 4:
		d = 1000 * Time(1+l.r.IntN(3)) // at one time
	default:
		d = Time(l.r.Int64N(1e5))
	}
	if l.next/20000%2 == 1 {
		d *= 1000
	}
	l.next++
	return Event{T: now + d, Key: l.r.Uint32N(1 << 20), Arg: l.next}
}

// drive pushes and pops n events and returns the order.
func drive(q *Queue, seed uint64, pending, n int) []Event {
	l := load{r: rand.New(rand.NewPCG(seed, 1))}
	got := make([]Event, 0, n)
	for range pending {
		q.Push(l.event(0))
	}
	for len(got) < n {
		e, ok := q.Pop(Never)
		if !ok {
			return got
		}
		got = append(got, e)
		// Sometimes two for one, sometimes none, around the wanted number.
		for k := l.r.IntN(3); k > 0 && q.Len() < 2*pending; k-- {
			q.Push(l.event(e.T))
		}
		if q.Len() == 0 {
			q.Push(l.event(e.T))
		}
	}
	return got
}

// TestOrderIsTheSameForEveryQueue compares every kind of queue with the heap.
func TestOrderIsTheSameForEveryQueue(t *testing.T) {
	for _, pending := range []int{1, 40, 3000} {
		want := drive(NewQueue(Config{Heap: true}), 7, pending, 60000)
		require.True(t, slices.IsSortedFunc(want, func(a, b Event) int {
			return cmp.Compare(a.T, b.T) // an event pushed at the present may have a smaller key
		}), "the heap itself")
		for _, c := range configs() {
			got := drive(NewQueue(c), 7, pending, 60000)
			require.Equal(t, len(want), len(got))
			for i := range want {
				if want[i].T != got[i].T || want[i].Key != got[i].Key {
					t.Fatalf("%+v, %d pending: event %d is %+v, the heap has %+v", c, pending, i, got[i], want[i])
				}
			}
		}
	}
}

func TestPopUntil(t *testing.T) {
	for _, c := range configs() {
		q := NewQueue(c)
		require.Equal(t, Never, q.Next())
		for i := range 100 {
			q.Push(Event{T: Time(i) * 1e6, Key: uint32(i)})
		}
		for i := range 100 {
			at := Time(i) * 1e6
			_, ok := q.Pop(at - 1)
			require.False(t, ok, "%+v", c)
			require.Equal(t, at, q.Next())
			require.Equal(t, 100-i, q.Len())
			e, ok := q.Pop(at)
			require.True(t, ok)
			require.Equal(t, uint32(i), e.Key)
			// An event at the present is legal, and goes first.
			q.Push(Event{T: at, Key: 1000})
			e, ok = q.Pop(at)
			require.True(t, ok)
			require.Equal(t, uint32(1000), e.Key)
		}
		_, ok := q.Pop(Never)
		require.False(t, ok)
	}
}

// TestEachSeesAll counts the events of every part: the bucket being served, ring and heap.
func TestEachSeesAll(t *testing.T) {
	for _, c := range configs() {
		q := NewQueue(c)
		l := load{r: rand.New(rand.NewPCG(3, 3))}
		left := map[uint32]bool{}
		for range 5000 {
			e := l.event(0)
			q.Push(e)
			left[e.Arg] = true
		}
		for range 2500 {
			e, _ := q.Pop(Never)
			delete(left, e.Arg)
		}
		q.Each(func(e Event) {
			require.True(t, left[e.Arg])
			delete(left, e.Arg)
		})
		require.Empty(t, left, "%+v", c)
	}
}

// TestWidthAdapts: a queue that adapts ends within the density it promises, from both sides.
func TestWidthAdapts(t *testing.T) {
	for _, gap := range []int64{100, 1e9} {
		q := NewQueue(Config{})
		r := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			q.Push(Event{T: Time(r.Int64N(1000 * gap)), Key: r.Uint32()})
		}
		for range 12 * window {
			e, _ := q.Pop(Never)
			q.Push(Event{T: e.T + Time(r.Int64N(2000*gap)), Key: r.Uint32()})
		}
		perBucket := math.Ldexp(1, int(q.shift)) / float64(gap)
		require.True(t, perBucket > 2 && perBucket < 128, "a bucket holds %.2f events at a gap of %d ps (2^%d ps wide)", perBucket, gap, q.shift)
	}
}

func TestNoAllocationOncePeakIsReached(t *testing.T) {
	for _, c := range []Config{{}, {Heap: true}, {Shift: 12}} {
		q := NewQueue(c)
		l := load{r: rand.New(rand.NewPCG(1, 2))}
		step := func() {
			e, _ := q.Pop(Never)
			q.Push(Event{T: e.T + 1 + Time(l.r.Int64N(1e6)), Key: l.r.Uint32()})
		}
		for range 1000 {
			q.Push(l.event(0))
		}
		for range 4 * window {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(50000, step), "%+v", c)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range configs() {
		require.NoError(t, c.Validate())
	}
	require.ErrorContains(t, Config{Shift: 41}.Validate(), "between 1 and 40")
	require.ErrorContains(t, Config{LogBuckets: 5}.Validate(), "between 6 and 20")
	require.ErrorContains(t, Config{LogBuckets: 21}.Validate(), "between 6 and 20")
}

func TestTime(t *testing.T) {
	require.Equal(t, Time(5000), At(5))
	require.Equal(t, Never, At(units.Never))
	require.Equal(t, units.Instant(5), Time(4001).Instant(), "what happens at 4001 ps has happened at 5 ns")
	require.Equal(t, Time(20), Serialization(1, 400*units.Gbit))
	require.Equal(t, Time(143), Serialization(1, 56*units.Gbit), "rounded up")
}

// FuzzQueue takes its pushes and pops from the input.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 255, 255, 9, 9}, uint8(3))
	f.Fuzz(func(t *testing.T, ops []byte, shift uint8) {
		a := NewQueue(Config{Shift: uint(shift)%MaxShift + 1, LogBuckets: 6})
		b := NewQueue(Config{Heap: true})
		var now Time
		for i, op := range ops {
			if op%4 == 0 {
				x, okx := a.Pop(now + Time(op)<<10)
				y, oky := b.Pop(now + Time(op)<<10)
				if okx != oky || x.T != y.T || x.Key != y.Key {
					t.Fatalf("%+v %v, the heap has %+v %v", x, okx, y, oky)
				}
				if okx {
					now = x.T
				}
				continue
			}
			e := Event{T: now + Time(op)<<(uint(op)%23), Key: uint32(i)}
			a.Push(e)
			b.Push(e)
		}
	})
}

// BenchmarkQueue is one Pop and one Push, at several numbers of pending events.
func BenchmarkQueue(b *testing.B) {
	for _, kind := range []struct {
		name string
		c    Config
	}{{"calendar", Config{}}, {"heap", Config{Heap: true}}} {
		for _, pending := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, pending), func(b *testing.B) {
				q := NewQueue(kind.c)
				r := rand.New(rand.NewPCG(1, 2))
				for i := range pending {
					q.Push(Event{T: Time(r.Int64N(1e6)), Key: uint32(i)})
				}
				x := uint64(1)
				for b.Loop() {
					e, _ := q.Pop(Never)
					x = x*6364136223846793005 + 1442695040888963407
					q.Push(Event{T: e.T + Time(x>>44), Key: e.Key})
				}
			})
		}
	}
}
