// SPDX-License-Identifier: Apache-2.0

package posts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// Payloads and sums are those of a list of all packets, and neither release nor the next messages change them.
func TestPosts(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := New(1000)
		var sizes []units.Bytes // of all packets
		var ends []uint32
		released := uint32(0)
		for range 20 {
			size := 1 + units.Bytes(r.IntN(5000))
			for left := size; left > 0; left -= 1000 {
				sizes = append(sizes, min(left, 1000))
			}
			end := p.Add(size)
			require.EqualValues(t, len(sizes), end, "seed %d", seed)
			ends = append(ends, end)
			if r.IntN(2) == 0 {
				n := released + r.Uint32N(end-released+1)
				p.Release(n)
				for _, e := range ends {
					if e <= n {
						released = e
					}
				}
			}
			sum := units.Bytes(0)
			for n, want := range sizes {
				if n := uint32(n); n >= released {
					got, last := p.Payload(n)
					require.EqualValues(t, want, got, "seed %d, packet %d", seed, n)
					require.Equal(t, contains(ends, n+1), last, "seed %d, packet %d", seed, n)
					require.Equal(t, sum, p.UpTo(n), "seed %d, packet %d", seed, n)
				} else {
					require.Zero(t, p.UpTo(n))
				}
				sum += want
			}
			require.Equal(t, sum, p.UpTo(end), "seed %d", seed)
		}
	}
}

func contains(all []uint32, n uint32) bool {
	for _, x := range all {
		if x == n {
			return true
		}
	}
	return false
}
