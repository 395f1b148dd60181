// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The queue does what a stable sort would.
func TestQueueAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var q Queue[int]
		type ev struct {
			at Time
			id int
		}
		var model []ev
		pop := func() {
			slices.SortStableFunc(model, func(a, b ev) int { return int(a.at - b.at) })
			require.Equal(t, model[0].at, q.Next(), "seed %d", seed)
			at, id := q.Pop()
			require.Equal(t, model[0], ev{at, id}, "seed %d", seed)
			model = model[1:]
		}
		for id := range 300 {
			switch r := rnd.IntN(20); {
			case r == 0:
				odd := rnd.IntN(3)
				q.Remove(func(id int) bool { return id%3 == odd })
				model = slices.DeleteFunc(model, func(e ev) bool { return e.id%3 == odd })
			case r < 8 && len(model) > 0:
				pop()
			default:
				// Few distinct times, so that order of scheduling matters.
				at := Time(rnd.IntN(10))
				q.Push(at, id)
				model = append(model, ev{at, id})
			}
			require.Equal(t, len(model), q.Len(), "seed %d", seed)
		}
		for len(model) > 0 {
			pop()
		}
		require.Equal(t, Never, q.Next())
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, depth := range []int{100, 10_000, 1_000_000} {
		b.Run(itoa(depth), func(b *testing.B) {
			rnd := NewStream(1, 1)
			var q Queue[uint32]
			for i := range depth {
				q.Push(rnd.Below(1e9), uint32(i))
			}
			b.ResetTimer()
			for range b.N {
				at, e := q.Pop()
				q.Push(at+rnd.Below(1e9), e)
			}
		})
	}
}
