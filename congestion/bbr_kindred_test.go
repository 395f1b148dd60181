// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// competingFlow is one whose packets wait for 20 ms beside a competitor, and the last probe of which was at now.
func competingFlow() (*bbr, units.Instant) {
	b, now := cruising()
	b.rivalry, b.probe.endedAt = competing, now
	b.wait, b.probe.wait, b.rounds = 20*units.Millisecond, 20*units.Millisecond, 2
	return b, now
}

// A flow that competes joins others' drains in the second half of the time between its own, as soon as an eighth of the queue has gone.
func TestBBRJoinsRivalsDrains(t *testing.T) {
	b, now := competingFlow()
	half := now.Add(b.competingAge() / 2)
	less := b.minRTT + b.wait/8*7
	require.False(t, b.joins(half, less-1))
	require.False(t, b.joins(half+1, less))
	require.True(t, b.joins(half+1, less-1))
}

// The second common drain within commonTime ends the competition, but what is seen within a quarter of the probes' distance is the same one.
func TestBBRCommonDrainsEndACompetition(t *testing.T) {
	again := func(after units.Duration) bool {
		b, now := competingFlow()
		b.othersDrained(now, b.wait)
		require.Equal(t, competing, b.rivalry)
		b.othersDrained(now.Add(after), b.wait)
		return b.rivalry == alone
	}
	b, _ := competingFlow()
	require.False(t, again(b.probeAge()/4-1))
	require.True(t, again(b.probeAge()/4))
	require.True(t, again(commonTime-1))
	require.False(t, again(commonTime), "version 1 of BBR drains the queue each ten seconds")
}

// A probe saw a common drain if a quarter of the queue at most is left, and others began it, or what this flow held back takes less than half
// of what packets waited.
func TestBBRJudgesDrains(t *testing.T) {
	saw := func(left units.Duration, joined bool, held units.Duration) bool {
		b, now := competingFlow()
		b.probe.least, b.common.joined = b.minRTT+left, joined
		b.peak, b.rival.capacity, b.inflight = units.Gbit, 0, 0
		b.probe.inflight = b.peak.Bytes(held)
		b.judgeDrain(now)
		return b.common.seenAt != 0
	}
	const little, much = 9 * units.Millisecond, 11 * units.Millisecond
	require.True(t, saw(5*units.Millisecond-1, true, much))
	require.False(t, saw(5*units.Millisecond, true, much))
	require.True(t, saw(0, false, little))
	require.False(t, saw(0, false, much))
}

// On trial a flow goes back to the competition, with the window that it had there, when packets wait for long again, unless that ends soon.
func TestBBRTrialEnds(t *testing.T) {
	b, now := competingFlow()
	b.rival.window = units.MiB
	b.othersDrained(now, b.wait)
	b.othersDrained(now.Add(commonTime-1), b.wait)
	require.Equal(t, alone, b.rivalry)
	long := b.common.most + 1
	at := func(after units.Duration, queue units.Duration) bool {
		b.now = b.common.fewAt.Add(after)
		b.judgeTrial(queue)
		return b.rivalry == competing
	}
	lapse := max(trialLapse, trialRounds*b.rtt())
	require.False(t, at(lapse, long))
	require.False(t, at(lapse, b.common.most))
	require.False(t, at(lapse, long))
	require.True(t, at(lapse+1, long))
	require.Equal(t, units.MiB, b.rival.window)
	b.rivalry, b.common.trialAt, b.common.fewAt = alone, now, now
	require.False(t, at(trialTime+1, long), "it is over")
	require.Zero(t, b.common.trialAt)
	b.common.trialAt = now
	b.compete()
	require.Zero(t, b.common.trialAt, "a probe that finds a competitor ends it, too")
}
