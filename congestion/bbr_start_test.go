// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// Start-up ends when two rounds in a row bring no quarter more, though the limits held the sender back, but not at rounds that tell nothing.
func TestBBREndsStartup(t *testing.T) {
	rounds := func(n int, set func(b *bbr)) bool {
		b, now := cruising()
		b.phase, b.best = startup, b.bw()
		for range n {
			b.before.held = true
			b.round = bbrRound{acked: lawsRate.Bytes(lawsRTT), took: lawsRTT, most: lawsRTT}
			set(b)
			b.startupRound(now)
		}
		return b.phase != startup
	}
	require.False(t, rounds(1, func(*bbr) {}))
	require.True(t, rounds(2, func(*bbr) {}))
	require.False(t, rounds(9, func(b *bbr) { b.before.held = false }))
	require.False(t, rounds(9, func(b *bbr) { b.round.void = true }))
	require.False(t, rounds(9, func(b *bbr) { b.rates[0] = b.best/4*5 + 8 }))
	// So do losses of more than one in 25 while packets wait; while none do as many are chance, and more than twice as many in a second such round
	// are none. Nor are twice as many as got lost while none waited.
	lose := func(percent units.Bytes) func(b *bbr) {
		return func(b *bbr) { b.before.held, b.round.lost = false, b.round.acked*percent/100 }
	}
	waiting := func(b *bbr) { lose(6)(b); b.round.most = 2 * lawsRTT }
	require.True(t, rounds(1, waiting))
	require.False(t, rounds(1, func(b *bbr) { waiting(b); lose(3)(b) }))
	require.False(t, rounds(1, lose(6)))
	require.False(t, rounds(9, lose(6)))
	more := units.Bytes(3)
	require.True(t, rounds(2, func(b *bbr) { more *= 3; lose(more)(b) }))
	require.False(t, rounds(9, lose(3)))
	require.False(t, rounds(1, func(b *bbr) { b.losses.calm = lossCount{all: units.GiB, lost: units.GiB / 32}; waiting(b) }))
}

// What comes after it was taken for lost doesn't count as lost. A start that losses have ended goes on when half of them have come, soon enough, and
// as one that losses haven't ended doesn't.
func TestBBRLateIsNotLost(t *testing.T) {
	for _, c := range []struct {
		lost, late units.Bytes
		after      units.Duration
		goesOn     bool
	}{
		{100 * lawsMTU, 50 * lawsMTU, undoTime - 1, true}, {100 * lawsMTU, 49 * lawsMTU, undoTime - 1, false},
		{100 * lawsMTU, 50 * lawsMTU, undoTime, false}, {0, 50 * lawsMTU, undoTime - 1, false},
	} {
		b, now := cruising()
		b.phase, b.window, b.sent = startup, 4*units.MiB, 8*units.MiB
		b.round = bbrRound{acked: 1000 * lawsMTU, lost: c.lost, took: lawsRTT, most: 2 * lawsRTT, goal: b.sent + 1}
		if b.startupRound(now); c.lost == 0 {
			b.enter(cruise)
		}
		require.NotEqual(t, startup, b.phase)
		b.OnAck(now.Add(c.after), &Ack{Acked: lawsMTU, Inflight: 98 * lawsMTU, Late: c.late})
		require.Equal(t, c.goesOn, b.phase == startup, "%+v", c)
		require.Equal(t, max(c.lost-c.late, 0), b.round.lost, "%+v", c)
		if c.goesOn {
			require.GreaterOrEqual(t, b.window, 4*units.MiB)
		}
	}
}

// A guess at the path's rate is where a start begins that would begin with less.
func TestBBRBeginsAtAGuess(t *testing.T) {
	for _, rate := range []units.Rate{lawsRate, units.Mbit} {
		b := newBBR(Path{MTU: lawsMTU, Found: Model{Rate: rate, MinRTT: lawsRTT, Guess: true}})
		require.Equal(t, startup, b.phase)
		require.Equal(t, max(rate.Bytes(lawsRTT), firstPackets*lawsMTU), b.window)
	}
}
