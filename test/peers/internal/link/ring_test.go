// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packets come out of a ring as they went in, however full it gets.
func TestRing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const size = 4 * MaxPacket
	r := newRing(size, 32)
	var model [][]byte
	kept, full, most := 0, 0, 0
	for step := range 20_000 {
		if rng.IntN(2) == 0 {
			b := r.room()
			if b == nil {
				full++
				require.True(t, kept >= size-MaxPacket || len(model) == 32, "full with %d bytes in %d packets", kept, len(model))
			} else {
				n := 1 + rng.IntN(MaxPacket)
				for i := 0; i < n; i += 97 {
					b[i] = byte(step + i)
				}
				model = append(model, append([]byte(nil), b[:n]...))
				r.put(n, int64(step))
				kept += n
				most = max(most, kept)
			}
		} else if !r.empty() {
			require.Equal(t, model[0], r.content(r.oldest()))
			kept -= len(model[0])
			model = model[1:]
			r.drop()
		}
		require.Equal(t, len(model) == 0, r.empty())
	}
	require.Positive(t, full)
	require.Greater(t, most, size)
}
