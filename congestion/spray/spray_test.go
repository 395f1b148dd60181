// SPDX-License-Identifier: Apache-2.0

package spray

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func choose(c Chooser, window, n int) (paths []uint16) {
	for range n {
		paths = append(paths, c.Choose(window))
	}
	return paths
}

func TestObliviousTakesAllInTurn(t *testing.T) {
	o := NewOblivious(3)
	o.Feedback(1, true)
	require.Equal(t, []uint16{0, 1, 2, 0, 1, 2, 0}, choose(o, 1, 7))
}

// Two paths for each packet of the window, at least 8, at most all.
func TestBitmapUsesTwoPathsForEachPacketOfTheWindow(t *testing.T) {
	for _, c := range []struct{ paths, window, used int }{
		{256, 0, 8}, {256, 1, 8}, {256, 4, 8}, {256, 5, 10}, {256, 100, 200}, {256, 1000, 256}, {4, 100, 4}, {1, 1, 1}, {256, -1, 8},
	} {
		b := NewBitmap(c.paths)
		seen := map[uint16]int{}
		for _, p := range choose(b, c.window, 4*c.used) {
			seen[p]++
		}
		require.Len(t, seen, c.used, "%+v", c)
		for _, n := range seen {
			require.Equal(t, 4, n, "each as often: %+v", c)
		}
	}
}

// A clean acknowledgement has its path used again, once; path 0 too.
func TestBitmapUsesACleanPathAgain(t *testing.T) {
	b := NewBitmap(256)
	require.Equal(t, []uint16{0, 1}, choose(b, 4, 2))
	b.Feedback(0, false)
	require.Equal(t, []uint16{0, 1, 2}, choose(b, 4, 3), "then on from there")
	b.Feedback(7, false)
	require.Equal(t, []uint16{7, 0, 1}, choose(b, 4, 3))
	b.Feedback(5, false)
	b.Feedback(6, true)
	require.Equal(t, []uint16{2, 3, 4, 5, 7}, choose(b, 4, 5), "a mark takes back the path to use again; 6 is skipped")
}

// A marked path is skipped, and each packet that meets bad paths clears one of them.
func TestBitmapSkipsMarkedPaths(t *testing.T) {
	b := NewBitmap(8)
	for _, p := range []uint16{1, 2, 4} {
		b.Feedback(p, true)
	}
	require.Equal(t, []uint16{0, 3, 5, 6, 7}, choose(b, 4, 5), "0; skips 1 and 2 and clears 1; skips 4 and clears it")
	require.Equal(t, []uint16{0, 1, 3, 4}, choose(b, 4, 4), "skips 2 and clears it")
	require.Equal(t, []uint16{5, 6, 7, 0, 1, 2}, choose(b, 4, 6))
}

// Where all are bad a packet goes nevertheless.
func TestBitmapWithAllPathsBad(t *testing.T) {
	b := NewBitmap(8)
	for p := range uint16(8) {
		b.Feedback(p, true)
	}
	require.Equal(t, uint16(0), b.Choose(4), "all the way round to the one that it cleared")
	b.Feedback(300, true) // none of ours
	b.Feedback(8, false)
	require.Equal(t, uint16(0), b.Choose(4), "clears 1 and finds 0 good")
}

func TestPathsAreBounded(t *testing.T) {
	require.Panics(t, func() { NewBitmap(0) })
	require.Panics(t, func() { NewBitmap(257) })
	require.Panics(t, func() { NewOblivious(0) })
	require.Panics(t, func() { NewBalanced(0) })
	require.Panics(t, func() { NewBalanced(MaxPaths + 1) })
}

func TestNoAllocation(t *testing.T) {
	b := NewBitmap(256)
	require.Zero(t, testing.AllocsPerRun(1000, func() { b.Feedback(b.Choose(100)+3, true) }))
}
