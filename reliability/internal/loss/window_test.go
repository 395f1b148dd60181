// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// The window against a map, with random spans acknowledged.
func TestWindowModel(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := firstWindow(1 << rng.IntN(9))
		acked := map[int]bool{}
		for range 300 {
			for range rng.IntN(200) {
				u := w.push()
				w.at(u).order = uint64(u) * 3
			}
			from := w.base + rng.IntN(w.next-w.base+1)
			to := from + rng.IntN(w.next-from+1)
			for u := from; u < to; {
				fresh, n := w.ack(u, to)
				for ; fresh != 0; fresh &= fresh - 1 {
					v := u + bits.TrailingZeros64(fresh)
					require.False(t, acked[v], "seed %d: unit %d is new twice", seed, v)
					acked[v] = true
				}
				u += n
			}
			w.slide()
			require.False(t, w.base < w.next && acked[w.base], "seed %d", seed)
			for u := w.base; u < w.next; u++ {
				if acked[u] != w.isAcked(u) || w.at(u).order != uint64(u)*3 {
					t.Fatalf("seed %d: unit %d of [%d, %d)", seed, u, w.base, w.next)
				}
			}
			if rng.IntN(4) == 0 { // let it slide far
				for u := w.base; u < w.next; {
					_, n := w.ack(u, w.next)
					u += n
				}
				for u := range w.next {
					acked[u] = true
				}
				w.slide()
				require.Equal(t, w.next, w.base)
			}
		}
	}
}

// Memory follows the span, not the number of units.
func TestWindowStaysSmall(t *testing.T) {
	w := firstWindow(100000)
	for range 100000 {
		u := w.push()
		if u >= 50 {
			w.ack(u-50, u-49)
			w.slide()
		}
	}
	require.Len(t, w.states, maxFirst)
}

func TestLogModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	l := txLog{first: 1, end: 1}
	var all []scheme.Unit
	for range 5000 {
		for range rng.IntN(5) {
			u := scheme.Unit(rng.IntN(40))
			all = append(all, u)
			require.EqualValues(t, len(all), l.push(transmission{unit: u}))
		}
		for l.first < l.end && rng.IntN(3) > 0 {
			l.first++
		}
		from := l.first + uint64(rng.IntN(4))
		u := scheme.Unit(rng.IntN(40))
		want, found := uint64(0), false
		for o := from; o < l.end && !found; o++ {
			if all[o-1] == u {
				want, found = o, true
			}
		}
		order, ok := l.find(u, from)
		require.Equal(t, found, ok)
		require.Equal(t, want, order)
	}
}
