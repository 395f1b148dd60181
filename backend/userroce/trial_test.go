// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// stretches moves so many stretches of a stream, of which a part takes as long as cost says for the setting that is used, and returns how many
// of the stretches were moved with each setting.
func stretches(t *trial, n int, cost func(setting uint8) units.Duration) map[uint8]int {
	with := map[uint8]int{}
	for range n {
		with[t.used]++
		for i := range 128 {
			took := cost(t.used)
			if i%16 == 0 {
				took *= 100 // an interruption
			}
			t.note(trialStretch/128, took)
		}
	}
	return with
}

// TestTrial: the cheapest setting is found soon, whichever it is, and found again after it has changed.
func TestTrial(t *testing.T) {
	for _, settings := range []uint8{2, 3} {
		x := newTrial(settings)
		require.Zero(t, x.used)
		for i := range 10 {
			best := uint8(i*i) % settings
			cost := func(setting uint8) units.Duration {
				if setting == best {
					return 20 * units.Microsecond
				}
				return 21*units.Microsecond + units.Duration(setting)*units.Microsecond
			}
			stretches(&x, 2*mostWait+8, cost)
			with := stretches(&x, 10*mostWait, cost)
			require.GreaterOrEqual(t, with[best], 10*mostWait*98/100, "%v", with)
		}
	}
}

// TestTrialOfEquals: where all cost the same the setting doesn't change back and forth, and all are tried.
func TestTrialOfEquals(t *testing.T) {
	x := newTrial(3)
	with := stretches(&x, 1000, func(uint8) units.Duration { return 20 * units.Microsecond })
	require.Less(t, with[1]+with[2], 30)
	require.Positive(t, with[1])
	require.Positive(t, with[2])
}
