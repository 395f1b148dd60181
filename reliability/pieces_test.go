// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestRing: a stream gets as many buffers as it keeps under way, and a peer's header no more than its stream fills.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		size, total, each units.Bytes
		n                 int
	}{
		{pieceSize, 0, headerSize, 1},
		{pieceSize, 1, headerSize, 1},
		{maxPiece, 1000, 1000, 1},
		{pieceSize, pieceSize, pieceSize, 1},
		{pieceSize, pieceSize + 1, pieceSize, 2},
		{pieceSize, maxStream, pieceSize, pieceCount},
		{1, 3, 1, 3},
		{maxPiece, maxStream, maxPiece, pieceCount},
	} {
		each, n := ring(c.size, c.total)
		require.Equal(t, c.each, each, "%v", c)
		require.Equal(t, c.n, n, "%v", c)
	}
}
