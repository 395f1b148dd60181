// SPDX-License-Identifier: Apache-2.0

package adaptive_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/units"
)

func newScheme() scheme.Scheme {
	s, err := adaptive.New(adaptive.Config{})
	if err != nil {
		panic(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name        string
		pool, seeds int
	}{{"room for parity", 1 << 12, 40}, {"little room", 20, 20}, {"no room", 0, 10}} {
		t.Run(c.name, func(t *testing.T) {
			schemetest.Suite{New: newScheme, ParityPool: c.pool, Seeds: c.seeds}.Run(t)
		})
	}
}

// Behind a bottleneck 10 % below the configured rate, with a drop rate of p per packet, goodput is at
// least 0.95 of bottleneck·(1−p).
func TestGoodputThroughBottleneck(t *testing.T) {
	for _, p := range []schemetest.PPM{0, 1000, 10_000} {
		for _, queue := range []int{16, 256, 4096} {
			c := bottleneck(9*units.Gbit, queue, p)
			r, err := c.Run(newScheme)
			require.NoError(t, err)
			goodput := units.RateOf(20000*64*units.KiB, r.Completion[0])
			want := float64(c.Link.Bottleneck) * (1 - float64(p)/1e6)
			require.Greater(t, float64(goodput), 0.95*want, "loss %d ppm, queue %d: %v", p, queue, goodput)
		}
	}
}

func bottleneck(rate units.Rate, queue int, p schemetest.PPM) schemetest.Case {
	return schemetest.Case{
		Seed: 5, Units: 20000, Rate: 10 * units.Gbit, ParityPool: 1 << 12,
		Link: schemetest.Link{Loss: p, ControlLoss: p, Bottleneck: rate, Queue: queue},
	}
}

// What a full queue lost is repeated, and answered with no rows beyond those that were planned before it filled.
func TestNoRowsForWhatAQueueLost(t *testing.T) {
	c := bottleneck(8*units.Gbit, 16, 0)
	c.Units = 200 // one group
	r, err := c.Run(newScheme)
	require.NoError(t, err)
	require.Greater(t, int(r.Sender.Retransmitted), r.Sender.M, "more than the planned rows could recover")
	require.EqualValues(t, r.Sender.M, r.Sender.Parity)
}

// New rows stay within the buffers that the receiver has for parity; where there is no room for as many as are lacking, data are repeated.
func TestNewRowsStayWithinThePool(t *testing.T) {
	c := schemetest.Case{Seed: 5, Units: 200, Rate: 10 * units.Gbit, ParityPool: 10, Link: schemetest.Link{Loss: 100_000}}
	r, err := c.Run(newScheme)
	require.NoError(t, err)
	require.Positive(t, r.Sender.Retransmitted)
}

// Random loss of a tenth costs what it must.
func TestRateIsKeptUnderLoss(t *testing.T) {
	c := schemetest.Case{
		Seed: 6, Units: 20000, Rate: 10 * units.Gbit, ParityPool: 1 << 12, Transfers: 2,
		Link: schemetest.Link{Loss: 100_000, ControlLoss: 10_000},
	}
	r, err := c.Run(newScheme)
	require.NoError(t, err)
	goodput := units.RateOf(20000*64*units.KiB, r.Completion[1])
	require.Greater(t, float64(goodput), 0.93*0.9*float64(c.Rate), "%v; %s", goodput, r.Sender.Explain)
}
