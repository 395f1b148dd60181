// SPDX-License-Identifier: Apache-2.0

package spray

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A wire delivers a packet of each path every so many ticks, after a delay, in order, and marks none.
type wire struct {
	every [4]int
	queue [4][]uint32 // numbers of packets
	free  [4]int
	got   [4]int
}

// tick lets now pass and tells b of what was delivered.
func (w *wire) tick(b *Balanced, now int) (delivered int) {
	for p := range w.queue {
		if len(w.queue[p]) == 0 || w.every[p] == 0 || now < w.free[p] {
			continue
		}
		w.free[p] = now + w.every[p]
		b.Delivered(uint16(p), 1, 0)
		b.Passed(uint16(p), w.queue[p][0])
		w.queue[p] = w.queue[p][1:]
		w.got[p]++
		delivered++
	}
	return delivered
}

// Paths that deliver at different rates get packets at these rates, and the queues of slow ones don't grow. What is
// under way is always the same: a packet is sent for each that was delivered.
func TestBalancedFollowsRates(t *testing.T) {
	w := wire{every: [4]int{1, 1, 2, 10}}
	b := NewBalanced(4)
	const window = 60
	send := func(n int) {
		for range n {
			p := b.Choose(window)
			w.queue[p] = append(w.queue[p], b.Sent(p))
		}
	}
	send(window)
	for now := range 20_000 {
		send(w.tick(b, now))
	}
	require.InEpsilon(t, 20_000, w.got[0], 0.02, "%v", w.got)
	require.InEpsilon(t, 20_000, w.got[1], 0.02, "%v", w.got)
	require.InEpsilon(t, 10_000, w.got[2], 0.02, "%v", w.got)
	require.InEpsilon(t, 2_000, w.got[3], 0.05, "%v", w.got)
	for p, q := range w.queue {
		// Each path has its share of the window: all have the same delay.
		require.InDelta(t, window*10/(26*w.every[p]), len(q), 6, "path %d: %v", p, w.got)
	}
}

// Marked packets move load to paths without marks.
func TestBalancedAvoidsMarks(t *testing.T) {
	b := NewBalanced(2)
	var sent [2]int
	for range 4000 {
		p := b.Choose(16)
		sent[p]++
		marked := 0
		if p == 0 {
			marked = 1
		}
		b.Delivered(p, 1, marked)
	}
	require.Greater(t, sent[1], sent[0]*5/4, "%v", sent)
	require.NotZero(t, sent[0])
}

// What was lost is under way no longer than until a later packet of its path is delivered.
func TestBalancedForgetsTheLost(t *testing.T) {
	b := NewBalanced(2)
	for range 8 {
		b.Choose(16)
	}
	require.Equal(t, [2]uint32{4, 4}, [2]uint32(b.sent[:2]))
	b.Delivered(0, 1, 0)
	b.Passed(0, 4)
	b.Passed(0, 2) // an answer that is late
	b.Passed(0, 5) // none
	for range 4 {
		require.Equal(t, uint16(0), b.Choose(16), "nothing is under way on it")
	}
	require.EqualValues(t, 4, b.sent[0]-b.passed[0])
}

// A path that loses four packets in a row is dead, and lives again once it has delivered one.
func TestBalancedDeadPaths(t *testing.T) {
	b := NewBalanced(3)
	require.Equal(t, -1, b.NextDead(0))
	for range 3 {
		b.Lost(1)
	}
	b.Delivered(1, 1, 0)
	for range 3 {
		b.Lost(1)
	}
	require.False(t, b.Dead(1), "not in a row")
	b.Lost(1)
	require.True(t, b.Dead(1))
	require.Equal(t, 1, b.NextDead(0))
	require.Equal(t, -1, b.NextDead(2))
	for range 100 {
		require.NotEqual(t, uint16(1), b.Choose(8))
	}
	require.Equal(t, uint16(0), b.ChooseOther(8, 2))
	for _, p := range []uint16{0, 2} {
		for range deadAfter {
			b.Lost(p)
		}
	}
	seen := map[uint16]bool{}
	for range 6 {
		seen[b.Choose(8)] = true
	}
	require.Len(t, seen, 3, "all are dead: any may find out")
	b.Delivered(1, 1, 0)
	require.False(t, b.Dead(1))
	require.Equal(t, uint16(1), b.Choose(8))
}

// Whatever a peer says, what is under way stays within what was sent.
func TestBalancedHostile(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		paths := 1 + rng.IntN(MaxPaths)
		b := NewBalanced(paths)
		for range 2000 {
			p := uint16(rng.IntN(1 << 9))
			switch rng.IntN(5) {
			case 0:
				b.Delivered(p, rng.IntN(1<<20)-10, rng.IntN(1<<20)-10)
			case 1:
				b.Passed(p, rng.Uint32())
			case 2:
				b.Lost(p)
			default:
				require.Less(t, int(b.Choose(rng.IntN(1<<20))), paths, "seed %d", seed)
			}
		}
		for p := range paths {
			require.LessOrEqual(t, b.sent[p]-b.passed[p], uint32(2000), "seed %d, path %d", seed, p)
			require.GreaterOrEqual(t, b.rate[p], uint32(leastRate), "seed %d, path %d", seed, p)
		}
	}
}

func TestBalancedAllocatesNothing(t *testing.T) {
	b := NewBalanced(MaxPaths)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		p := b.Choose(100)
		b.Delivered(p, 1, 0)
		b.Passed(p, b.Sent(p))
	}))
}
