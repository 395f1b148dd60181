// SPDX-License-Identifier: Apache-2.0

package adaptive_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/units"
)

// Late groups grow with the drop rate, and so do the rows that they need: together
// they stay within the code.
func TestLateGroupsStayWithinTheCode(t *testing.T) {
	seeds := uint64(12)
	if race.Enabled {
		seeds = 2
	}
	for seed := range seeds {
		c := schemetest.Case{
			Seed: seed, Units: 6000 + 500*int(seed%4), Rate: 20 * units.Gbit, ParityPool: 1 << 12, Transfers: 2,
			Link: schemetest.Link{Delay: 12500 * units.Microsecond, Loss: schemetest.PPM(150_000 + 15_000*seed), ControlLoss: 10_000},
		}
		r, err := c.Run(newScheme)
		require.NoError(t, err, "seed %d", seed)
		t.Logf("seed %d: %s", seed, r.Sender.Explain)
	}
}
