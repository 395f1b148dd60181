// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// What kind of loss it is decides what it says: of a queue what was found missing or was trimmed, of a path that was dark a timeout, which
// ends a competition, too, and nothing what was guessed or will never be known. Each but the last is no longer in flight.
func TestBBRKindsOfLosses(t *testing.T) {
	const n = 10 * lawsMTU
	for kind, want := range map[LossKind]struct {
		lost, trimmed, left units.Bytes
		void                bool
	}{
		LossDetected: {lost: n, left: 89 * lawsMTU}, LossNack: {lost: n, left: 89 * lawsMTU}, LossTrim: {lost: n, trimmed: n, left: 89 * lawsMTU},
		LossTimeout: {left: 89 * lawsMTU, void: true}, LossGuessed: {left: 89 * lawsMTU}, LossUnacknowledged: {left: 99 * lawsMTU},
	} {
		b, now := cruising()
		b.rivalry, b.sent, b.inflight = competing, units.MiB, 99*lawsMTU
		b.OnLoss(now, Loss{Bytes: n, Kind: kind})
		require.Equal(t, []any{want.lost, want.trimmed, want.left, want.void, !want.void},
			[]any{b.round.lost, b.round.trimmed, b.inflight, b.round.void, b.rivalry == competing}, "%v", kind)
	}
}

// Who tells of a trimmed packet notifies, too: that is no mark, and ends no start. A notification alone is one.
func TestBBRNotifications(t *testing.T) {
	for _, trimmed := range []bool{false, true} {
		b := newBBR(Path{MTU: lawsMTU})
		b.OnSent(1, lawsMTU, lawsMTU)
		b.sent = units.MiB
		if trimmed {
			b.OnLoss(2, Loss{Bytes: lawsMTU, Kind: LossTrim})
		}
		b.OnCNP(3)
		require.Equal(t, trimmed, b.phase == startup)
	}
}

// Few losses in each of many rounds say that a queue was full, too, where more get lost than chance explains by what does while nothing waits.
func TestBBRLossesOfManyRounds(t *testing.T) {
	full := func(calm, lost units.Bytes, rounds int) bool {
		var l lossTest
		l.take(1000*lawsMTU, calm*lawsMTU, lawsMTU, true)
		for range rounds {
			if l.take(500*lawsMTU, lost*lawsMTU, lawsMTU, false) {
				return true
			}
		}
		return false
	}
	require.False(t, full(0, 4, enoughPackets/500-1), "too few packets")
	require.True(t, full(0, 4, enoughPackets/500))
	require.False(t, full(8, 4, 100), "as many while nothing waited")
	require.False(t, full(0, 1, 100), "too few losses")
	require.True(t, full(0, 40, 1), "many in one round")
}

// What the buffer was seen to hold is forgotten little by little, and in an hour no more of it is left than of one that was never full.
func TestBBRForgetsTheBuffer(t *testing.T) {
	b, now := cruising()
	unknown := b.target()
	b.round.most = b.minRTT + units.Millisecond
	b.queueFull(now)
	require.Equal(t, units.Millisecond*depthShare/10, b.target())
	for last := b.target(); now < units.Instant(60*units.Minute); last = b.target() {
		now = now.Add(units.Second + 1)
		b.round = bbrRound{acked: units.MiB}
		b.judgeLosses(now)
		require.GreaterOrEqual(t, b.target(), last, "after %v", now)
	}
	require.Equal(t, unknown, b.target())
	// A host that was away for days makes no longer round trips, and so no deeper buffers, than the longest.
	b.sampleRTT(now, 6000*units.Minute)
	b.queueFull(now)
	require.Equal(t, unknown, b.target())
	require.LessOrEqual(t, b.rtt(), maxRTT)
}

// What gets lost at random left at the rate of the path, too, and counts as in flight for a round trip.
func TestBBRAllowsForRandomLosses(t *testing.T) {
	b, _ := cruising()
	b.decide()
	limit := b.limit
	b.losses.calm = lossCount{all: 1000 * lawsMTU, lost: 10 * lawsMTU}
	b.decide()
	require.InDelta(t, float64(b.bdp())*0.01, float64(b.limit-limit), float64(lawsMTU))
	for range bwRounds {
		b.before = bbrRound{held: true, took: lawsRTT}
		b.round.acked, b.round.lost, b.round.took = lawsRate.Bytes(lawsRTT)/2, lawsRate.Bytes(lawsRTT)/2, lawsRTT
		b.sampleRate()
	}
	require.InEpsilon(t, 0.505, float64(b.bw())/float64(lawsRate), 0.001, "no more than is known to be random")
}
