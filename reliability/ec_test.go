// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

func newEC(t testing.TB, code scheme.CodeKind, k, m int) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := ec.New(ec.Config{Code: code, K: k, M: m})
		require.NoError(t, err)
		return s
	}
}

// TestErasureCoding moves content with coding, through few and many messages and
// through a parity pool that is too small.
func TestErasureCoding(t *testing.T) {
	for _, code := range []scheme.CodeKind{scheme.XOR, scheme.MDS} {
		for _, drop := range []float64{0, 0.01, 0.1} {
			for _, pool := range []units.Bytes{64 * units.MiB, 128 * units.KiB} {
				t.Run(fmt.Sprintf("code %d, drop %g per packet, pool %v", code, drop, pool), func(t *testing.T) {
					qp := smallQP
					qp.MaxMessage = 256 * units.KiB
					p := newPair(t, setup{
						net: sim.Config{Rate: units.Gbit, Seed: 11, Link: sim.Link{Delay: 5 * ms, Loss: sim.Loss{Drop: drop}, Reorder: 0.05, ReorderDelay: ms}},
						qp:  qp, conn: reliability.Config{Rate: 900 * units.Mbit, ParityPool: pool}, scheme: newEC(t, code, 32, 8),
					})
					sizes := []units.Bytes{0, 1, 1024, 5000, 100_001, units.MiB + 1, 3 * units.MiB}
					if race.Enabled {
						sizes = sizes[:5]
					}
					for _, n := range sizes {
						p.one(n, n)
						p.one(n, n+5000)
					}
					s, r := p.conn[0].Stats().Units, p.conn[1].Stats().Units
					require.NotZero(t, s.Parity)
					require.Equal(t, 32, s.K)
					if drop > 0 {
						require.NotZero(t, r.Recovered)
					}
				})
			}
		}
	}
}

// The sender's k and m count: the receiver has room for as much parity as they make, not as its own would.
func TestSendersCodeCounts(t *testing.T) {
	side := 0
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Seed: 11, Link: sim.Link{Delay: 5 * ms}}, qp: smallQP, conn: reliability.Config{Rate: 900 * units.Mbit},
		scheme: func() scheme.Scheme {
			side++
			return newEC(t, scheme.MDS, []int{8, 32}[side-1], []int{4, 8}[side-1])()
		},
	})
	p.timed(units.MiB)
	before := p.conn[0].Stats().Units.Parity
	p.timed(units.MiB)
	s := p.conn[0].Stats().Units
	require.EqualValues(t, 1024/8*4, s.Parity-before)
	require.Empty(t, s.Explain)
}

// TestErasureCodingOverSockets decodes on goroutines while packets arrive.
func TestErasureCodingOverSockets(t *testing.T) {
	e := overSockets(t, emulated(0.01), reliability.Config{Rate: 750 * units.Mbit}, newEC(t, scheme.MDS, 32, 8))
	src, dst := e.alloc(t, 0, 8*units.MiB), e.alloc(t, 1, 8*units.MiB)
	for i := range src.Bytes() {
		src.Bytes()[i] = byte(i * 31 >> 7)
	}
	for range 3 {
		clear(dst.Bytes())
		e.move(t, src, dst, 8*units.MiB)
		require.Equal(t, src.Bytes(), dst.Bytes())
	}
	require.NotZero(t, e.conn[1].Stats().Units.Recovered)
}
