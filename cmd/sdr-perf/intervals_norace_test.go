// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine computes: the race detector has nothing to find.

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIntervalsHold: of 95 % intervals about 95 in a hundred have the true difference in them, however large that is.
func TestIntervalsHold(t *testing.T) {
	for _, factor := range []float64{0.2, 1.1, 5} {
		intervalsHold(t, factor)
	}
}

func intervalsHold(t *testing.T, factor float64) {
	const runs = 1000
	inside, insideP50, insideP99 := 0, 0, 0
	for seed := range uint64(runs) {
		p := pair{drawn(2*seed, 500, 100_000, 0.3), drawn(2*seed+1, 700, 100_000*factor, 0.3)}
		d := p.compare(0)
		for held, i := range map[*int]*interval{&inside: d.Avg, &insideP50: d.P50, &insideP99: d.P99} {
			if i != nil && i.Low <= factor-1 && factor-1 <= i.High {
				*held++
			}
		}
	}
	// Four standard deviations of a count of 1000 with 0.95; what a histogram rounds and the 99th percentile's
	// few times beyond make those of quantiles wider.
	require.InDelta(t, 950, inside, 28, "factor %g", factor)
	require.GreaterOrEqual(t, insideP50, 922, "factor %g", factor)
	require.GreaterOrEqual(t, insideP99, 922, "factor %g", factor)
}
