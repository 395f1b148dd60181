// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"testing"

	"github.com/klauspost/reedsolomon"
	"github.com/stretchr/testify/require"
)

// What Figure 11 measures is a code: parity is right and every submessage has it.
func TestEncodersEncode(t *testing.T) {
	b := newCodingBench()
	require.Len(t, b.groups, int(encodeBuffer/encodeUnit/encodeK))

	require.NoError(t, b.pass(xorParity, 2))
	shards := b.groups[0] // one is enough for the slow way; below all of them
	for i := range encodeM {
		want := make([]byte, encodeUnit)
		for j := i; j < encodeK; j += encodeM {
			for n, v := range shards[j] {
				want[n] ^= v
			}
		}
		require.True(t, bytes.Equal(want, shards[encodeK+i]))
	}

	rs, err := reedSolomon()
	require.NoError(t, err)
	require.NoError(t, b.pass(rs, 2))
	check, err := reedsolomon.New(encodeK, encodeM)
	require.NoError(t, err)
	for i, shards := range b.groups {
		ok, err := check.Verify(shards)
		require.NoError(t, err)
		require.True(t, ok, "submessage %d", i)
	}
}
