// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPoolOfManySizes: pieces of all sizes, one after the other, take no more memory than a few of the largest; none is given away twice,
// and each is whole.
func TestPoolOfManySizes(t *testing.T) {
	const largest = 64 << 10
	allocated := uint64(0)
	p := pool{free: map[int][]uint64{}, more: func(n int) (uint64, error) {
		at := allocated
		allocated += uint64(n)
		return at, nil
	}}
	for n := 1; n <= largest; n += 8 {
		at, err := p.get(n)
		require.NoError(t, err)
		require.Zero(t, at%line)
		other, err := p.get(n)
		require.NoError(t, err)
		require.GreaterOrEqual(t, max(at, other)-min(at, other), uint64(n), "%d bytes at %d and at %d", n, at, other)
		p.put(n, at)
		p.put(n, other)
	}
	require.LessOrEqual(t, allocated, uint64(4*largest))
}
