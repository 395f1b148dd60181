// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

// Closed forms come to an end also where a transfer takes millions of round trips, beside which a piece of the integral is less than
// a float64 resolves.
func TestMeanOfLongTransfers(t *testing.T) {
	for _, tr := range []Transfer{
		{Rate: units.Mbit, RTT: 25 * units.Millisecond, Size: units.TiB, Unit: 64 * units.KiB, Drop: 1.6e-4},
		{Rate: 10 * units.Gbit, RTT: MinRTT, Size: units.TiB, Unit: 4 * units.KiB, Drop: 1e-5},
	} {
		best := make(chan units.Duration, 1)
		go func() {
			_, mean, _ := EC{K: 32, M: 8, Beta: 0.5}.BestSplit(tr)
			best <- mean
		}()
		select {
		case mean := <-best:
			require.InEpsilon(t, float64(tr.Ideal()), float64(mean), 0.03)
		case <-time.After(time.Minute):
			require.Fail(t, "no end", "%+v", tr)
		}
		mean, err := Mean(SR{Alpha: 2}, tr)
		require.NoError(t, err)
		require.InEpsilon(t, float64(tr.Ideal()), float64(mean), 1e-3)
	}
}
