// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// What is acknowledged gives the time since it was sent, to a fraction of the round trip, for as
// long as the log reaches back; later the answer is that it isn't known, never a wrong time.
func TestSentLog(t *testing.T) {
	const rtt, spacing = 6400 * units.Microsecond, 10 * units.Microsecond
	var l sentLog
	require.Zero(t, l.since(1, 0), "nothing was sent")
	now, sentAt := units.Instant(units.Second), []units.Instant{}
	send := func(n int) {
		for range n {
			now = now.Add(spacing)
			l.add(now, 1000, rtt)
			sentAt = append(sentAt, now)
		}
	}
	send(2000)
	for _, inflight := range []int{1900, 640, 100, 1, 0} {
		was := now.Sub(sentAt[len(sentAt)-1-inflight])
		got := l.since(now, units.Bytes(inflight)*1000)
		require.InDelta(t, float64(was), float64(got), float64(rtt/entriesPerRTT), "%d in flight", inflight)
	}
	for range 3 { // the ring is used many times over
		send(40_000)
		require.Zero(t, l.since(now, 39_999_000), "forgotten")
		require.InDelta(t, float64(640*spacing), float64(l.since(now, 640_000)), float64(rtt/entriesPerRTT))
	}
}
