// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Much virtual time, in which one goroutine moves everything: TestBursts shows the race detector what runs side by side here.

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some points of grid A with few transfers: averages within the goals (goals.go), and
// the same numbers each time.
func TestAdaptiveIsNearTheIdeal(t *testing.T) {
	points, err := pointsOf(options{grid: "A", schemes: "adaptive", sizes: "128KiB,128MiB", drops: "0,1e-2", seed: 3}, 1.0/250)
	require.NoError(t, err)
	results, err := measureAll(points, 2, os.Stderr)
	require.NoError(t, err)
	for _, r := range results {
		require.Less(t, r.OverIdeal.Avg, 1.03, "%v, drop %g", r.SizeBytes, r.Link.Drop)
		require.GreaterOrEqual(t, r.OverIdeal.Avg, 1.0, "%v, drop %g", r.SizeBytes, r.Link.Drop)
	}
	again, err := points[1].measure()
	require.NoError(t, err)
	require.Equal(t, results[1], again)
}
