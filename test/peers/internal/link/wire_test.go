// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 8000 bytes a millisecond.
func testConfig() Config {
	return Config{Rate: 64e6, Delay: 5 * time.Millisecond, Queue: 40000, Seed: 7}
}

const ms = int64(time.Millisecond)

func TestWireSerialises(t *testing.T) {
	w := newWire(testConfig(), 0)
	for i, want := range []int64{1, 2, 3} { // all three come at 0
		due, f := w.send(0, 8000, false)
		require.Equal(t, arrives, f)
		require.Equal(t, want*ms, due, "packet %d", i)
	}
	due, _ := w.send(2*ms, 4000, false) // the third still has a millisecond to go
	require.Equal(t, 3*ms+ms/2, due)
	due, _ = w.send(100*ms, 8000, false) // idle in between: nothing was saved up
	require.Equal(t, 101*ms, due)
}

func TestWireQueueOverflows(t *testing.T) {
	w := newWire(testConfig(), 0)
	for range 5 {
		_, f := w.send(0, 8000, false)
		require.Equal(t, arrives, f)
	}
	_, f := w.send(0, 1, false)
	require.Equal(t, overflows, f)
	due, f := w.send(ms, 8000, false) // one has left
	require.Equal(t, arrives, f)
	require.Equal(t, 6*ms, due)
}

// A lost packet takes its time on the wire.
func TestWireLosesOnTheWire(t *testing.T) {
	c := testConfig()
	c.Drop = 1
	w := newWire(c, 0)
	_, f := w.send(0, 8000, false)
	require.Equal(t, lost, f)
	w.drop = 0
	due, _ := w.send(0, 8000, false)
	require.Equal(t, 2*ms, due)
}

func TestWireDropRate(t *testing.T) {
	for _, p := range []float64{0, 1e-3, 1e-2, 0.5} {
		c := testConfig()
		c.Drop = p
		const n = 200_000
		count := func(seed, stream uint64) (k int, first []int) {
			c.Seed = seed
			w := newWire(c, stream)
			for i := range n {
				if _, f := w.send(int64(i)*ms, 64, false); f == lost {
					k++
					first = append(first, i)
				}
			}
			return k, first[:min(len(first), 20)]
		}
		k, which := count(1, 0)
		require.InDelta(t, p*n, k, 5*math.Sqrt(p*(1-p)*n)+0.5, "p %v", p)
		_, again := count(1, 0)
		require.Equal(t, which, again, "the same seed")
		if p > 0 {
			_, other := count(2, 0)
			require.NotEqual(t, which, other, "another seed")
			_, back := count(1, 1)
			require.NotEqual(t, which, back, "the other direction")
		}
	}
}

// Which packets are lost doesn't depend on when they come, nor on the queue.
func TestWireLuckIsThePacketsOwn(t *testing.T) {
	c := testConfig()
	c.Drop = 0.3
	calm, busy := newWire(c, 0), newWire(c, 0)
	for i := range 10000 {
		_, a := calm.send(int64(i)*ms, 8000, false)
		_, b := busy.send(int64(i)*ms/2, 8000, false)
		if b != overflows {
			require.Equal(t, a, b, "packet %d", i)
		}
	}
}

// A queue beyond a threshold marks those that may be marked, in the share that its length asks for,
// and where it drops early drops the others in the same.
func TestWireMarks(t *testing.T) {
	c := testConfig()
	c.Early = Early{From: 8000, To: 32000, Most: 0.5, Drops: true}
	for _, ect := range []bool{true, false} {
		for _, x := range []struct {
			backlog int
			share   float64
		}{{8000, 0}, {8001, 0.5 / 24000}, {20000, 0.25}, {31999, 0.5}, {32000, 1}} {
			w := newWire(c, 0)
			const n = 20000
			counts := [4]int{}
			for range n {
				w.freeAt = int64(x.backlog) * w.picosPerByte
				_, f := w.send(0, 100, ect)
				counts[f]++
			}
			bad := overflows
			if ect {
				bad = marked
			}
			require.InDelta(t, x.share*n, counts[bad], 5*math.Sqrt(n*x.share*(1-x.share))+1, "%v", x)
			require.Equal(t, n, counts[arrives]+counts[bad], "%v", x)
		}
	}
}

// Without dropping early those that can't be marked pass.
func TestWireMarksOnly(t *testing.T) {
	c := testConfig()
	c.Early = Early{From: 1, To: 1, Most: 1}
	w := newWire(c, 0)
	for _, want := range []fate{arrives, arrives, marked} { // the first finds nothing before it
		_, f := w.send(0, 100, want == marked)
		require.Equal(t, want, f)
	}
}

// What waits when the rate changes leaves at the new one; in an outage it doesn't, and nothing is in the way afterwards.
func TestWireChanges(t *testing.T) {
	w := newWire(testConfig(), 0)
	left, _ := w.send(0, 16000, false)
	require.Equal(t, 2*ms, left)
	before := w.change(ms, 6.4e6) // 8000 bytes are left, of 1.25 µs each
	require.Equal(t, 11*ms, w.moved(left, ms, before))
	left, f := w.send(ms, 800, false)
	require.Equal(t, arrives, f)
	require.Equal(t, 12*ms, left)
	w.change(2*ms, 0)
	_, f = w.send(3*ms, 100, false)
	require.Equal(t, lost, f)
	w.change(4*ms, 64e6)
	left, f = w.send(4*ms, 8000, false)
	require.Equal(t, arrives, f)
	require.Equal(t, 5*ms, left)
}
