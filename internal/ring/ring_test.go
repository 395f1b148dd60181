// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAgainstSlice does what a slice does.
func TestAgainstSlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	r := Ring[int]{head: ^uint64(0) - 100, tail: ^uint64(0) - 100} // counters wrap
	var want []int
	for range 20_000 {
		switch n := rng.IntN(100); {
		case n < 50:
			r.Push(n)
			want = append(want, n)
		case n < 98 && len(want) > 0:
			require.Equal(t, want[0], *r.Front())
			require.Equal(t, want[0], r.Pop())
			want = want[1:]
		case n == 98:
			odd := func(v int) bool { return v%2 == 1 }
			r.DeleteFunc(func(v *int) bool { return odd(*v) })
			want = slices.DeleteFunc(want, odd)
		case n == 99 && rng.IntN(10) == 0:
			r.Reset()
			want = nil
		}
		require.Equal(t, len(want), r.Len())
		for i, v := range want {
			require.Equal(t, v, *r.At(i))
		}
	}
}

// TestWhatLeavesIsForgotten: the memory keeps nothing alive that was taken out.
func TestWhatLeavesIsForgotten(t *testing.T) {
	var r Ring[*int]
	for range 20 {
		r.Push(new(int))
	}
	r.DeleteFunc(func(p **int) bool { return true })
	r.Push(new(int))
	r.Pop()
	require.Equal(t, make([]*int, len(r.buf)), r.buf)
}

func TestNoAllocation(t *testing.T) {
	var r Ring[int]
	for range 100 {
		r.Push(1)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Pop(); r.Push(2) }))
	n := 0
	r.Reset()
	require.Equal(t, 1.0, testing.AllocsPerRun(1, func() {
		r.Reset()
		for r.Reserve(1000); n < 1000; n++ {
			r.Push(n)
		}
		n = 0
	}), "Reserve makes room for so many")
	require.Equal(t, 1000, r.Len())
	require.Equal(t, 999, *r.At(999))
}
