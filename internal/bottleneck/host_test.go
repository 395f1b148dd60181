// SPDX-License-Identifier: Apache-2.0

package bottleneck_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// A clock keeps to a rate and notes when it is told something.
type clock struct {
	congestion.Fixed
	heard units.Instant
	gaps  []units.Duration
}

func (c *clock) OnAck(now units.Instant, _ *congestion.Ack) {
	c.gaps = append(c.gaps, now.Sub(c.heard))
	c.heard = now
}

// A flow that makes no queue hears from busy hosts as irregularly as was measured, within a factor of
// two; from hosts that don't stall it hears at each report.
func TestBusyHostsAnswerLate(t *testing.T) {
	run := func(s bottleneck.Stalls) ([]units.Duration, units.Rate) {
		c := &clock{Fixed: congestion.Fixed{Rate: 100 * units.Mbit}}
		const end = 40 * units.Instant(units.Second)
		b := bottleneck.New(bottleneck.Link{Rate: units.Gbit, Buffer: units.MiB, Packet: 1500, Seed: 2},
			bottleneck.Flow{Controller: c, RTT: 2 * units.Millisecond, Report: 200 * units.Microsecond, Sender: s, Receiver: s})
		b.Run(end)
		slices.Sort(c.gaps)
		return c.gaps, b.Rate(0, 0, end)
	}
	busy, rate := run(bottleneck.BusyHost)
	at := func(q float64) float64 { return 1e3 * busy[int(q*float64(len(busy)))].Seconds() }
	t.Log(at(0.5), at(0.9), at(0.99), at(0.999), rate)
	require.InDelta(t, 0.23, at(0.5), 0.1)
	require.InDelta(t, 0.46, at(0.9), 0.3)
	require.InDelta(t, 4, at(0.99), 2)
	require.InDelta(t, 18, at(0.999), 9)
	require.InEpsilon(t, 1e8, float64(rate), 0.1, "short stalls are caught up with")
	again, _ := run(bottleneck.BusyHost)
	require.Equal(t, busy, again)
	calm, _ := run(bottleneck.Stalls{})
	require.Equal(t, 200*units.Microsecond, calm[len(calm)/100])
	require.Equal(t, 200*units.Microsecond, calm[len(calm)*99/100])
}
