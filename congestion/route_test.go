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

// Where delays vary, too, no two probes see the same, and the one that was sure of itself ten seconds after the last sight of the shorter way is believed.
func TestBBRTakesDetoursOfVaryingDelay(t *testing.T) {
	const rate, rtt = 4 * units.Mbit, 300 * units.Millisecond
	b := bottleneck.New(bottleneck.Link{
		Rate: rate, Buffer: rate.Bytes(rtt), Packet: packet, Jitter: rtt / 10, Seed: 1, Changes: []bottleneck.Change{{At: 60 * sec, Rate: rate, Detour: rtt}},
	}, bbrFlow(rtt, 0))
	b.Run(130 * sec)
	require.Greater(t, float64(b.Rate(0, 100*sec, 130*sec))/float64(rate), 0.9)
}

// A way that becomes longer by less than others' queues do is no queue for ever: it is found out within ten seconds, and so is that it is
// short again.
func TestBBRTakesSmallDetours(t *testing.T) {
	const rate = units.Gbit
	for _, c := range []struct{ rtt, detour units.Duration }{
		{2 * units.Millisecond, 100 * units.Microsecond}, {2 * units.Millisecond, 200 * units.Microsecond}, {2 * units.Millisecond, 500 * units.Microsecond},
		{25 * units.Millisecond, 250 * units.Microsecond}, {25 * units.Millisecond, 500 * units.Microsecond}, {25 * units.Millisecond, 1250 * units.Microsecond},
		{25 * units.Millisecond, 2500 * units.Microsecond}, {100 * units.Millisecond, 5 * units.Millisecond}, {100 * units.Millisecond, 12_500 * units.Microsecond},
	} {
		b := bottleneck.New(bottleneck.Link{
			Rate: rate, Buffer: rate.Bytes(c.rtt), Packet: packet,
			Changes: []bottleneck.Change{{At: 10 * sec, Rate: rate, Detour: c.detour}, {At: 25 * sec, Rate: rate}},
		}, bbrFlow(c.rtt, 0))
		b.Run(30 * sec)
		require.Greater(t, float64(b.Rate(0, 20*sec, 25*sec))/float64(rate), 0.9, "%+v", c)
		require.Greater(t, float64(b.Rate(0, 26*sec, 30*sec))/float64(rate), 0.95, "%+v, short again", c)
		mean, _ := b.Queued(26*sec, 30*sec)
		require.Less(t, rate.Time(mean), c.rtt/16, "%+v, short again", c)
	}
}

// Delays that vary are no queue either. As packets keep their order, most take nearly as long as the longest, but for those of the first round trips,
// which are few. Taken for a queue it left 0.02 of the link in use.
func TestBBRTakesVaryingDelays(t *testing.T) {
	for _, c := range []struct {
		rate        units.Rate
		rtt, jitter units.Duration
	}{
		{units.Gbit, 2 * units.Millisecond, 125 * units.Microsecond}, {units.Gbit, 2 * units.Millisecond, 500 * units.Microsecond},
		{units.Gbit, 25 * units.Millisecond, 400 * units.Microsecond}, {units.Gbit, 25 * units.Millisecond, 3 * units.Millisecond},
		{200 * units.Mbit, 25 * units.Millisecond, 1500 * units.Microsecond}, {200 * units.Mbit, 25 * units.Millisecond, 6 * units.Millisecond},
	} {
		b := bottleneck.New(bottleneck.Link{Rate: c.rate, Buffer: c.rate.Bytes(c.rtt), Packet: packet, Jitter: c.jitter, Seed: 1}, bbrFlow(c.rtt, 0))
		b.Run(16 * sec)
		got := float64(b.Rate(0, 4*sec, 16*sec)) / float64(c.rate)
		t.Logf("%+v: %.3f", c, got)
		require.Greater(t, got, 0.85, "%+v", c)
	}
}
