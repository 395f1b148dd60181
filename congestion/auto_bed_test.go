// SPDX-License-Identifier: Apache-2.0

//go:build !race

package congestion_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

// autoAlone runs one flow through 300 Mbit/s with 400 µs and 100 KB of buffer for four seconds.
func autoAlone(path congestion.Path, f congestion.Factory) *bottleneck.Bed {
	const rtt = 400 * units.Microsecond
	path.MTU = packet
	b := bottleneck.New(bottleneck.Link{Rate: 300 * units.Mbit, Buffer: 100_000, Packet: packet, Seed: 5},
		bottleneck.Flow{Controller: f(path), RTT: rtt, Report: 100 * units.Microsecond})
	b.Run(4 * sec)
	return b
}

// A short path with a small buffer, which nothing but losses tells of: under 1 % is sent again, the start
// included, where a sender without a limit loses nine tenths of what it sends, and the link is used.
func TestAutoDoesntFlood(t *testing.T) {
	b := autoAlone(congestion.Path{}, congestion.Auto())
	s := b.Sum(0, 0, 4*sec)
	require.Less(t, float64(s.Dropped), 0.01*float64(s.Sent))
	require.Greater(t, float64(b.Rate(0, sec/2, 2*sec)), 0.93*300e6)
	s = autoAlone(congestion.Path{}, congestion.Search()).Sum(0, 0, 4*sec)
	require.Greater(t, float64(s.Dropped), 0.5*float64(s.Sent))
	// A configured rate that is ten times too high does harm for less than a second.
	b = autoAlone(congestion.Path{LineRate: 3 * units.Gbit}, congestion.Auto())
	s = b.Sum(0, sec/2, 2*sec)
	require.Less(t, float64(s.Dropped), 0.01*float64(s.Sent))
	require.Greater(t, float64(b.Rate(0, sec, 2*sec)), 0.93*300e6)
}

// What another sender has found out spares the start, and may be wrong by a factor of four.
func TestBBRBeginsWithWhatIsKnown(t *testing.T) {
	const rate, rtt = 200 * units.Mbit, 100 * units.Millisecond
	begin := func(found units.Rate) *bottleneck.Bed {
		b := bottleneck.New(bottleneck.Link{Rate: rate, Buffer: rate.Bytes(rtt), Packet: packet, Seed: 5}, bottleneck.Flow{
			Controller: congestion.BBR()(congestion.Path{MTU: packet, Found: congestion.Model{Rate: found, MinRTT: rtt}}),
			RTT:        rtt, Report: 3 * units.Millisecond,
		})
		b.Run(6 * sec)
		return b
	}
	cold, warm := begin(0), begin(rate)
	require.Greater(t, float64(warm.Rate(0, 0, sec)), 0.8*float64(rate))
	require.Greater(t, float64(warm.Rate(0, 0, sec)), 1.3*float64(cold.Rate(0, 0, sec)))
	for _, wrong := range []units.Rate{rate / 4, rate * 4} {
		b := begin(wrong)
		require.Greater(t, float64(b.Rate(0, 4*sec, 6*sec)), 0.9*float64(rate), "%v", wrong)
		s := b.Sum(0, 2*sec, 6*sec)
		require.Less(t, float64(s.Dropped), 0.01*float64(s.Sent), "%v", wrong)
	}
}
