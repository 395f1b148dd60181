// SPDX-License-Identifier: Apache-2.0

package table

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAgainstMap does what a map does.
func TestAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var tab Table[int]
	want := map[uint32]*int{}
	for range 10_000 {
		i := rng.Uint32N(300)
		switch rng.IntN(3) {
		case 0:
			v := rng.Int()
			tab.Set(i, &v)
			want[i] = &v
		case 1:
			tab.Set(i, nil)
			delete(want, i)
		}
		require.Equal(t, want[i], tab.Get(i))
		require.Nil(t, tab.Get(1<<31))
	}
	got := map[uint32]*int{}
	for i, v := range tab.All() {
		got[i] = v
	}
	require.Equal(t, want, got)
}

// TestReadersMeanwhile: what was set before a reader began is there, whatever is set meanwhile.
func TestReadersMeanwhile(t *testing.T) {
	var tab Table[uint32]
	v := make([]uint32, 1<<14)
	for i := range v {
		v[i] = uint32(i)
	}
	tab.Set(0, &v[0])
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				for i, x := range tab.All() {
					if *x != i {
						t.Errorf("entry %d is %d", i, *x)
					}
				}
				if tab.Get(0) == nil {
					t.Error("entry 0 is gone")
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for i := range v {
		tab.Set(uint32(i), &v[i])
	}
	close(stop)
	wg.Wait()
}

// TestMemoryIsLinear: n entries one by one need a small multiple of n words.
func TestMemoryIsLinear(t *testing.T) {
	const n = 1 << 15
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var tab Table[int]
	v := new(int)
	for i := range uint32(n) {
		tab.Set(i, v)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*8*n))
	runtime.KeepAlive(&tab)
}

func TestFree(t *testing.T) {
	var s Table[int]
	n := 1
	for i := range uint32(40) {
		require.Equal(t, i, s.Free())
		s.Set(i, &n)
	}
	s.Set(7, nil)
	s.Set(31, nil)
	require.Equal(t, uint32(7), s.Free())
	s.Set(7, &n)
	require.Equal(t, uint32(31), s.Free())
}
