// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package congestion_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// A way that becomes twice as long, and short again, is used within 40 round trips, or three seconds.
func TestBBRTakesDetours(t *testing.T) {
	for _, rtt := range []units.Duration{2 * units.Millisecond, 100 * units.Millisecond} {
		const rate = 200 * units.Mbit
		b := bottleneck.New(bottleneck.Link{
			Rate: rate, Buffer: max(rate.Bytes(rtt), 64*units.KiB), Packet: packet,
			Changes: []bottleneck.Change{{At: 10 * sec, Rate: rate, Detour: rtt}, {At: 21 * sec, Rate: rate}},
		}, bbrFlow(rtt, 0))
		b.Run(32 * sec)
		for _, at := range []units.Instant{10 * sec, 21 * sec} {
			from := at.Add(max(3*units.Second, 80*rtt))
			got := float64(b.Rate(0, from, from+3*sec)) / float64(rate)
			require.Greater(t, got, 0.9, "%v, after the change at %v", rtt, at)
		}
	}
}
