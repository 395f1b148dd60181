// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sim

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestNoAllocationPerPacket(t *testing.T) {
	const delay = 50 * units.Microsecond
	for _, sizeOnly := range []bool{true, false} {
		// What a run of n packets allocates does not depend on n once pools
		// have grown to what is in flight.
		few := testing.AllocsPerRun(1, func() { stream(t, 50_000, sizeOnly, delay) })
		many := testing.AllocsPerRun(1, func() { stream(t, 200_000, sizeOnly, delay) })
		require.InDelta(t, few, many, 100)
	}
}

// An idle QP costs less than 64 KiB whatever its limits.
func TestIdleTableIsSmall(t *testing.T) {
	n, err := New(Config{})
	require.NoError(t, err)
	const count = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range count {
		newSide(t, n.A(), 1<<16, 1<<16)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(count*(testMax+64*units.KiB)))
}
