// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestYieldsWhereOfUse: a goroutine yields for others while they keep all of GOMAXPROCS busy, and not while one is idle.
func TestYieldsWhereOfUse(t *testing.T) {
	y := newYielder()
	y.procs = max(2, runtime.GOMAXPROCS(0)) // with one, who runs a worker yields in any case
	const limit = 10 * time.Second
	require.Eventually(t, func() bool { return !y.isOfUse() }, limit, time.Millisecond, "one is idle")
	require.Zero(t, testing.AllocsPerRun(100, func() { y.isOfUse() }))
	var stop atomic.Bool
	defer stop.Store(true)
	for range y.procs {
		go func() {
			for !stop.Load() { // it polls, as a worker does
			}
		}()
	}
	require.Eventually(t, y.isOfUse, limit, time.Millisecond, "all are busy")
}

// TestYieldsInAnyCase: however little use it is, a goroutine yields once in a while.
func TestYieldsInAnyCase(t *testing.T) {
	y := newYielder()
	now := units.Instant(units.Second)
	for range 2 {
		y.yield(now, false)
		require.Equal(t, now.Add(yieldAlways), y.yieldAt)
		require.Equal(t, now.Add(yieldLook), y.lookAt)
		now = now.Add(yieldAlways)
	}
}
