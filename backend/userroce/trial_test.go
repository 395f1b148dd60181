// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// stretches sends so many stretches of trains, each of which takes the kernel as long as cost says for the number that is held, and
// returns how many of the stretches were sent with each number.
func stretches(t *trial, n int, cost func(most int) units.Duration) map[int]int {
	with := map[int]int{}
	for range n {
		with[t.most()]++
		for i := range trialStretch / 4 {
			took := cost(t.most())
			if i%16 == 0 {
				took *= 100 // an interruption
			}
			t.sent(4, 4*60*units.KiB, took)
		}
	}
	return with
}

// TestTrial: the cheapest number is found soon, whichever it is, and found again after it has changed.
func TestTrial(t *testing.T) {
	x := &trial{}
	require.Zero(t, x.most())
	rising := func(most int) units.Duration { return 20*units.Microsecond + units.Duration(most)*100 }
	falling := func(most int) units.Duration { return 80*units.Microsecond - units.Duration(most)*250 }
	few := func(most int) units.Duration {
		if most == 0 {
			return 30 * units.Microsecond
		}
		return rising(most)
	}
	for range 2 {
		for _, phase := range []struct {
			cost func(int) units.Duration
			best int
		}{{rising, 0}, {few, fewHeld}, {falling, manyHeld}, {few, fewHeld}} {
			stretches(x, 2*mostWait+8, phase.cost)
			with := stretches(x, 10*mostWait, phase.cost)
			require.GreaterOrEqual(t, with[phase.best], 10*mostWait*98/100, "%v", with)
		}
	}
}

// TestTrialOfEquals: where all cost the same the number doesn't change back and forth.
func TestTrialOfEquals(t *testing.T) {
	x := &trial{}
	with := stretches(x, 1000, func(int) units.Duration { return 20 * units.Microsecond })
	require.Less(t, with[fewHeld]+with[manyHeld], 30)
	require.Positive(t, with[fewHeld])
	require.Positive(t, with[manyHeld])
}
