// SPDX-License-Identifier: Apache-2.0

package bitring

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRing compares the operations by words with the same by bits.
func TestRing(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 1))
	for _, window := range []uint32{1, 64, 65, 500} {
		ring, bits := New(window), map[uint32]bool{}
		base := uint32(0)
		for range 20_000 {
			n := r.Uint32N(window)
			require.Equal(t, bits[base+n], ring.Has(base+n))
			switch r.IntN(4) {
			case 0, 1:
				require.Equal(t, !bits[base+n], ring.Set(base+n))
				bits[base+n] = true
			case 2:
				want := base
				for want < base+n && bits[want] {
					want++
				}
				require.Equal(t, want, ring.FirstClear(base, base+n), "seed %d", seed)
			default: // the window moves: over what has come, or by a cumulative acknowledgement
				want, to := uint32(0), base+n
				if r.IntN(2) == 0 {
					for to = base; bits[to]; to++ {
						want++
					}
					require.Equal(t, want, ring.TakeOnes(base), "seed %d", seed)
				} else {
					for psn := base; psn < to; psn++ {
						if bits[psn] {
							want++
						}
					}
					require.Equal(t, want, ring.TakeAll(base, to), "seed %d", seed)
				}
				for ; base < to; base++ {
					delete(bits, base)
				}
			}
		}
	}
}
