// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Where switches trim, parity is for what gets lost otherwise: with 1 % trimmed and 1e-3 lost without a word the adaptive
// scheme has hardly more parity than with 1e-3 lost and nothing trimmed, and far less than with as much lost.
func TestTrimsTeachNoParity(t *testing.T) {
	const transfers = 12
	parity := func(drop, trim float64) uint64 {
		p := newPair(t, setup{
			net:    sim.Config{Rate: units.Gbit, HeaderBytes: 64, Seed: 9, Link: sim.Link{Delay: 5 * ms, Loss: sim.Loss{Drop: drop}, Trim: trim}},
			qp:     sdr.QPConfig{MTU: 1024, Channels: 4},
			conn:   reliability.Config{Rate: 900 * units.Mbit, Unit: 1024},
			scheme: trimAware(t)["adaptive"],
		})
		for range transfers {
			p.one(8*units.MiB, 8*units.MiB)
		}
		return p.conn[0].Stats().Units.Parity
	}
	quiet, trimmed, lossy := parity(1e-3, 0), parity(1e-3, 0.01), parity(0.011, 0)
	t.Logf("parity units: %d with 1e-3 lost, %d with 1e-2 trimmed as well, %d with 1.1e-2 lost", quiet, trimmed, lossy)
	require.Less(t, float64(trimmed), 1.35*float64(quiet))
	require.Less(t, 2*trimmed, lossy)
}
