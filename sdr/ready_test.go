// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestTimers compares what the heap calls due with a search through all queue pairs.
func TestTimers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var h timers
	qps := make([]QP, 50)
	want := map[*QP]units.Instant{}
	for now := units.Instant(0); now < 5000; now++ {
		for range rng.IntN(4) {
			q := &qps[rng.IntN(len(qps))]
			if due := now + units.Instant(rng.IntN(60)); rng.IntN(4) > 0 {
				h.set(q, due)
				want[q] = due
			} else {
				h.set(q, units.Never)
				delete(want, q)
			}
		}
		soonest := units.Never
		for _, due := range want {
			soonest = min(soonest, due)
		}
		require.Equal(t, soonest, h.next())
		last := units.Instant(0)
		h.popDue(now, func(q *QP) {
			require.Equal(t, want[q], q.due)
			require.GreaterOrEqual(t, q.due, last)
			last = q.due
			delete(want, q)
		})
		require.Len(t, h, len(want))
		require.Greater(t, h.next(), now)
		for i, q := range h {
			require.Equal(t, i+1, q.heapIndex)
		}
	}
}

// TestReadyList: a queue pair that several goroutines make ready is in the list once until a worker takes the list; none is left out.
func TestReadyList(t *testing.T) {
	var l readyList
	require.True(t, l.empty())
	qps := make([]QP, 3)
	for _, i := range []int{2, 0, 2, 1, 0} {
		l.add(&qps[i])
	}
	require.Equal(t, []*QP{nil, &qps[2], &qps[0], &qps[1]}, l.popAll([]*QP{nil}), "oldest first, behind what was there")
	require.Empty(t, l.popAll(nil))

	const adders, each = 4, 20_000
	var wg sync.WaitGroup
	var news [3][adders]struct {
		sync.Mutex
		n int
	}
	for a := range adders {
		wg.Go(func() {
			for i := range each {
				x := &news[i%3][a]
				x.Lock()
				x.n++
				x.Unlock()
				l.add(&qps[i%3])
			}
		})
	}
	added := make(chan struct{})
	go func() { wg.Wait(); close(added) }()
	seen := 0
	for last := false; ; {
		for _, q := range l.popAll(nil) {
			for i := range qps {
				for a := range adders {
					if x := &news[i][a]; q == &qps[i] {
						x.Lock()
						seen += x.n
						x.n = 0
						x.Unlock()
					}
				}
			}
		}
		if last {
			break
		}
		select {
		case <-added:
			last = true
		default:
		}
	}
	require.Equal(t, adders*each, seen)
}
