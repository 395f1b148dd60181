// SPDX-License-Identifier: Apache-2.0

//go:build !race

package erasure

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingIsAllocated(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const k, m = 128, 16
		rng := rand.New(rand.NewPCG(5, 0))
		g := newGroup(rng, k+2*m, 4096)
		data, parity, out := g.units[:k], g.units[k:k+m], g.units[k+m:]
		data[k-1] = data[k-1][:100]
		rows, missing := rng.Perm(100)[:m], rng.Perm(k)[:m]
		few := []int{1, 17, 18}
		var c Coder
		jobs := func() {
			require.NoError(t, c.Encode(MDS(), data, rows, parity))
			require.NoError(t, c.Decode(MDS(), data, rows, parity, missing, out))
			require.NoError(t, c.Encode(XOR(m), data, few[:1], parity[:1]))
			require.NoError(t, c.Decode(XOR(m), data, few[:1], parity[:1], few[1:2], out[:1]))
		}
		jobs()
		require.Zero(t, testing.AllocsPerRun(10, jobs))
	})
}
