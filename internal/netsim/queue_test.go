// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The queue does what a stable sort would, also where it runs out of keys.
func TestQueueAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		q := NewQueue()
		if seed%2 == 1 {
			q.keys = math.MaxUint32 - uint32(rnd.IntN(300))
		}
		type ev struct {
			at Time
			id uint32
		}
		var model []ev
		now := Time(0)
		pop := func() {
			slices.SortStableFunc(model, func(a, b ev) int { return int(a.at - b.at) })
			require.Equal(t, model[0].at, q.Next(), "seed %d", seed)
			at, id := q.Pop()
			require.Equal(t, model[0], ev{at, id}, "seed %d", seed)
			now, model = at, model[1:]
		}
		for id := range uint32(600) {
			if rnd.IntN(20) < 9 && len(model) > 0 {
				pop()
				continue
			}
			// Few distinct times, so that order of scheduling matters, and some that are over.
			at := now + Time(rnd.IntN(10)) - 2
			if rnd.IntN(5) == 0 {
				at += Time(rnd.IntN(1_000_000))
			}
			q.Push(at, id)
			model = append(model, ev{max(at, now), id})
			require.Equal(t, len(model), q.Len(), "seed %d", seed)
		}
		for len(model) > 0 {
			pop()
		}
		require.Equal(t, Never, q.Next())
	}
}
