// SPDX-License-Identifier: Apache-2.0

package spray

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A round takes each path once, and rounds differ.
func TestRecyclingRounds(t *testing.T) {
	r := NewRecycling(16, 1)
	var rounds [4][]uint16
	for i := range rounds {
		seen := map[uint16]bool{}
		for range 16 {
			p := r.Choose(1)
			require.False(t, seen[p])
			seen[p] = true
			rounds[i] = append(rounds[i], p)
		}
	}
	require.NotEqual(t, rounds[0], rounds[1])
}

// What was acknowledged without a mark goes again first, once, in its order.
func TestRecyclingUsesGoodPathsAgain(t *testing.T) {
	r := NewRecycling(8, 1)
	r.Feedback(5, false)
	r.Feedback(2, false)
	r.Feedback(3, true)
	r.Feedback(9, false) // no such path exists
	require.Equal(t, []uint16{5, 2}, []uint16{r.Choose(1), r.Choose(1)})
	for range 2 * MaxPaths { // more than it keeps
		r.Feedback(1, false)
	}
	for range MaxPaths {
		require.Equal(t, uint16(1), r.Choose(1))
	}
	require.Zero(t, r.held)
}

// A penalty is paid back by turns: one for a mark, four for a trim, fifteen for a loss and at most. Each packet pays back one path's.
func TestRecyclingPenalties(t *testing.T) {
	for _, c := range []struct {
		punish func(r *Recycling)
		turns  int
	}{
		{func(r *Recycling) { r.Feedback(3, true) }, 1},
		{func(r *Recycling) { r.Trimmed(3) }, 4},
		{func(r *Recycling) { r.Lost(3) }, 15},
		{func(r *Recycling) { r.Lost(3); r.Trimmed(3) }, 15},
	} {
		r := NewRecycling(8, 1)
		c.punish(r)
		passed := 0
		for i := 0; ; i++ {
			require.Less(t, i, 1000)
			owed := r.penalty[3]
			path := r.Choose(1)
			if r.penalty[3] < owed { // which may end with 3 first in the next round
				passed++
			}
			if path == 3 {
				break
			}
		}
		require.Equal(t, c.turns, passed)
	}
	r := NewRecycling(2, 1)
	r.Lost(0)
	r.Lost(1)
	r.Choose(1) // takes one although both owe
	require.Equal(t, uint8(29), r.penalty[0]+r.penalty[1], "one packet pays back one path")
}

func TestRecyclingTakesPowersOfTwo(t *testing.T) {
	require.Panics(t, func() { NewRecycling(12, 1) })
	require.Panics(t, func() { NewRecycling(512, 1) })
}
