// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A queue that a small window ends leaves the base as it is, and the window is made small more and more rarely. One sample
// that is short says that it was no more than a queue.
func TestQueueIsNotTheBase(t *testing.T) {
	const base, long = units.Millisecond, 10 * units.Millisecond
	var r baseRound
	now := units.Instant(units.Second)
	rounds := func(window int) (n int) {
		for ; !r.squeeze; n++ {
			require.Zero(t, r.add(now, long, base, window))
			now = now.Add(long)
		}
		return n - 1
	}
	for want := leastRounds; want <= mostRounds; want *= 2 {
		require.Equal(t, want, rounds(100))
		require.Zero(t, r.add(now, base, base, smallWindow), "the queue is gone")
		require.False(t, r.squeeze)
	}
	require.Equal(t, mostRounds, rounds(100), "no more rarely than that")
}

// What was sent before the window was small, and for a round trip after, says nothing; what is sent then says what the base is.
func TestBaseIsWhatASmallWindowMeets(t *testing.T) {
	const base, long = units.Millisecond, 10 * units.Millisecond
	var r baseRound
	now := units.Instant(units.Second)
	for !r.squeeze {
		require.Zero(t, r.add(now, long, base, 100))
		now = now.Add(long)
	}
	small := now.Add(long)
	require.Zero(t, r.add(now, long, base, smallWindow), "the first that finds the window small")
	for range 2 * enoughSamples {
		require.Zero(t, r.add(small.Add(long-1), 2*base, base, smallWindow), "of before")
	}
	for i := range enoughSamples - 1 {
		require.Zero(t, r.add(small.Add(long), long-units.Duration(i), base, smallWindow))
	}
	require.True(t, r.squeeze)
	require.Equal(t, long-(enoughSamples-2), r.add(small.Add(long), long, base, smallWindow))
	require.False(t, r.squeeze)
}

// What is lost while packets wait cuts the window by its share in a round trip, to no less than half, and not if it is a 32nd or less of
// it. What is lost while none wait doesn't, however much it is.
func TestLossCutsTheWindowWherePacketsWait(t *testing.T) {
	const base, mtu = 10 * units.Millisecond, 1000
	var squeezed bool
	w := watchedWindow{squeezed: &squeezed, line: units.Gbit}
	w.newController(congestion.Path{BaseRTT: base, MTU: mtu})
	now := units.Instant(units.Second)
	_, whole := w.Limits(now)
	lose := func(n units.Bytes) units.Bytes {
		w.OnLoss(now, congestion.Loss{Bytes: n, Kind: congestion.LossDetected})
		_, left := w.Limits(now)
		return left
	}
	for range 100 {
		require.Equal(t, whole, lose(whole/4), "at random")
		now = now.Add(base)
	}
	w.waitedAt = now
	require.Equal(t, whole, lose(whole/33))
	require.Equal(t, whole-2*(whole/33), lose(whole/33), "together they are more than a few")
	w.OnLoss(now, congestion.Loss{Bytes: whole, Kind: congestion.LossTimeout})
	require.Equal(t, whole-2*(whole/33)-whole/4, lose(whole/4))
	require.Equal(t, whole-whole/2, lose(whole))
	now = now.Add(base)
	require.Equal(t, whole/4, lose(whole), "in the next round trip, half of what was left")
	now++
	require.Equal(t, whole/4, lose(whole), "nothing has waited for a round trip")

	w.OnAck(now, &congestion.Ack{Acked: mtu})
	_, n := w.Limits(now)
	require.Equal(t, whole/4+mtu/growBack, n)
}
