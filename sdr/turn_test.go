// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestSpinner: a worker spins as long as spinning finds work, stops after some spins in vain, and after some waits
// tries again: by turns as many as at first, and fewer that are longer, unless there is something to do during these anyhow.
func TestSpinner(t *testing.T) {
	const most = 50 * units.Microsecond
	s := newSpinner()
	for range 1000 {
		require.Equal(t, units.Instant(100).Add(most), s.until(100, units.Never, most))
		s.found()
	}
	for _, times := range []units.Duration{1, longTimes, 1, longTimes} {
		for range mostCredit / inVainCosts / times {
			require.Equal(t, units.Instant(100).Add(times*most), s.until(100, units.Never, most))
			s.inVain()
		}
		for range tryAfter - 1 {
			require.Equal(t, units.Instant(100), s.until(100, units.Never, most), "they don't pay")
		}
	}
	require.Equal(t, units.Instant(100).Add(most), s.until(100, units.Never, most))
	s.credit = 0
	for range tryAfter {
		s.until(100, units.Never, most)
	}
	for range 1000 {
		require.Equal(t, units.Instant(100).Add(longTimes*most), s.until(100, units.Never, most), "long ones pay")
		s.found()
	}
	due := units.Instant(100).Add(longTimes * most)
	require.Equal(t, due, s.until(100, due, most))
	require.Equal(t, units.Instant(100).Add(most), s.until(100, due-1, most), "no peer is waited for that long")
	s = newSpinner()
	require.Equal(t, units.Instant(100), s.until(100, units.Never, -1), "never, if the configuration says so")
}

// TestProcessorsBoundWorkers: neither GOMAXPROCS nor the processors are outnumbered, and the worker's goroutine leaves one of two to others.
func TestProcessorsBoundWorkers(t *testing.T) {
	for _, c := range []struct{ procs, processors, want int }{
		{1, 1, 1}, {2, 2, 1}, {8, 2, 1}, {2, 8, 1}, {8, 8, 4}, {8, 5, 2}, {64, 64, maxWorkers},
	} {
		require.Equal(t, c.want, defaultWorkers(c.procs, c.processors), "GOMAXPROCS %d, %d processors", c.procs, c.processors)
	}
}

// TestTurn: the worker's own goroutine or one caller runs it, never both; a caller that has come back within backSoon leastSoon times
// in a row is expected back.
func TestTurn(t *testing.T) {
	var x turn
	x.init()
	require.False(t, x.take(runCaller), "it is the goroutine's")
	x.release(0)
	for i := range leastSoon {
		require.False(t, x.expectsBack(), "after %d times", i)
		x.noteCaller(units.Instant(i) * units.Instant(backSoon))
		require.True(t, x.take(runCaller))
		require.False(t, x.take(runCaller))
		require.False(t, x.take(runOwn))
		x.release(units.Instant(i) * units.Instant(backSoon))
	}
	require.True(t, x.expectsBack())
	x.noteCaller(units.Instant(units.Second))
	require.False(t, x.expectsBack(), "it took too long")
	require.EqualValues(t, leastSoon, x.callerTurns.Load())
}
