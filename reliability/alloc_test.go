// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// mallocs counts the heap allocations of the process while f runs.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestNoAllocationPerPacket compares a short and a long transfer, so that what a
// transfer costs once cancels out. Both sides run in this process.
func TestNoAllocationPerPacket(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		e := overSockets(t, linkemu.Config{}, reliability.Config{}, newSR(t, mode))
		const short, long = 8 * units.MiB, 48 * units.MiB
		src, dst := e.alloc(t, 0, long), e.alloc(t, 1, long)
		e.move(t, src, dst, long) // buffers grow to their size
		best := 1.0
		for range 3 { // the runtime allocates now and then on its own
			a := mallocs(func() { e.move(t, src, dst, short) })
			b := mallocs(func() { e.move(t, src, dst, long) })
			packets := float64((long - short) / 4096)
			best = min(best, max(0, float64(b)-float64(a))/packets)
		}
		require.Less(t, best, 0.01, "allocations per packet, both sides together, mode %v", mode)
		e.close(t)
	}
}

// TestGCPauseWhileSpinning bounds how long spinning workers hold up the garbage
// collector: best of three.
func TestGCPauseWhileSpinning(t *testing.T) {
	e := overSockets(t, linkemu.Config{}, reliability.Config{}, newSR(t, sr.RTO))
	const n = 16 * units.MiB
	src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
	best := time.Hour
	for range 3 {
		before := pauses(t)
		stop := time.Now().Add(300 * time.Millisecond)
		for time.Now().Before(stop) {
			done := make(chan struct{})
			go func() { defer close(done); runtime.GC() }()
			e.move(t, src, dst, n)
			<-done
		}
		if best = min(best, longest(before, pauses(t))); best < 10*time.Millisecond {
			return
		}
	}
	t.Fatalf("the best of three runs has a pause of %v, want under 10 ms", best)
}

const pauseMetric = "/sched/pauses/total/gc:seconds"

func pauses(t *testing.T) *metrics.Float64Histogram {
	t.Helper()
	s := []metrics.Sample{{Name: pauseMetric}}
	metrics.Read(s)
	require.Equal(t, metrics.KindFloat64Histogram, s[0].Value.Kind())
	return s[0].Value.Float64Histogram()
}

// longest is the lower bound of the highest bucket that gained a pause.
func longest(before, after *metrics.Float64Histogram) time.Duration {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > before.Counts[i] {
			return time.Duration(after.Buckets[i] * 1e9)
		}
	}
	return 0
}

// TestSmallTransferAllocatesLittle: a program that sends many small messages pays for each of them with what the garbage collector has to
// do. Both sides run in this process.
func TestSmallTransferAllocatesLittle(t *testing.T) {
	for name, most := range map[string]uint64{"sr": 4200, "adaptive": 4500} {
		t.Run(name, func(t *testing.T) {
			e := overSockets(t, linkemu.Config{}, reliability.Config{}, allSchemes(t)[name])
			const n, rounds = 4 * units.KiB, 200
			src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
			e.move(t, src, dst, n)
			best := uint64(math.MaxUint64)
			for range 3 { // the runtime allocates now and then on its own
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range rounds {
					e.move(t, src, dst, n)
				}
				runtime.ReadMemStats(&after)
				best = min(best, (after.TotalAlloc-before.TotalAlloc)/rounds)
			}
			t.Logf("%d bytes a transfer, both sides together", best)
			require.Less(t, best, most)
		})
	}
}
