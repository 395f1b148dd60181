// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPSN(t *testing.T) {
	const last PSN = PSNMask
	require.Equal(t, PSN(0), last.Next())
	require.Equal(t, PSN(4), last.Add(5))
	require.Equal(t, last, PSN(0).Add(-1))
	require.Equal(t, PSN(7), PSN(7).Add(1<<24))
	require.Equal(t, last.Next(), PSN(1<<24).Add(0), "bits above the 24th don't count")

	require.Equal(t, 1, PSN(0).Diff(last))
	require.Equal(t, -1, last.Diff(0))
	require.Equal(t, 1<<23-1, PSN(1<<23-1).Diff(0))
	require.Equal(t, -1<<23, PSN(1<<23).Diff(0))
	require.Equal(t, 0, PSN(1<<24|3).Diff(3))

	require.True(t, last.Less(0))
	require.False(t, PSN(0).Less(last))
	require.False(t, PSN(5).Less(5))
	require.True(t, PSN(5).Less(5+1<<23) && PSN(5+1<<23).Less(5), "half the space apart: both")

	require.True(t, PSN(2).InWindow(last, 4))
	require.False(t, PSN(3).InWindow(last, 4))
	require.True(t, last.InWindow(last, 1))
	require.False(t, (last-1).InWindow(last, 1<<24-1))
	require.False(t, last.InWindow(last, 0))
	require.True(t, PSN(0).InWindow(5, 1<<24), "all")
}

func TestPSNAgainstIntegers(t *testing.T) {
	rng := newRand(t)
	for range 10000 {
		// p and n are close enough that plain integers tell the order.
		p := int64(rng.Uint32())
		n := rng.IntN(1<<24) - 1<<23
		a, b := PSN(p&PSNMask), PSN((p+int64(n))&PSNMask)
		require.Equal(t, b, a.Add(n))
		require.Equal(t, n, b.Diff(a))
		require.Equal(t, n < 0, b.Less(a))
		w := rng.Uint32N(1 << 24)
		in := n >= 0 && uint32(n) < w || n < 0 && uint32(n+1<<24) < w
		require.Equal(t, in, b.InWindow(a, w))
	}
}
