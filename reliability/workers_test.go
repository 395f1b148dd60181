// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

func overWorkers(t testing.TB, workers int, unit units.Bytes) *sides {
	return overEndpoints(t, linkemu.Config{}, sdr.EndpointConfig{Workers: workers}, reliability.Config{Unit: unit}, newSR(t, sr.RTO),
		func(_ int, d backend.Device) backend.Device { return d })
}

// TestSendFromSeveralWorkers: with several workers the packets of one connection are given to the device by all of them, and arrive where they
// should. With one there is nobody to hand them over to.
func TestSendFromSeveralWorkers(t *testing.T) {
	for _, unit := range []units.Bytes{4 * units.KiB, 64 * units.KiB} {
		for _, workers := range []int{1, 2, 3} {
			e := overWorkers(t, workers, unit)
			const n = 8 * units.MiB
			src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
			for i := range src.Bytes() {
				src.Bytes()[i] = byte(i*31>>7) ^ byte(i>>16)
			}
			for range 3 {
				clear(dst.Bytes())
				e.move(t, src, dst, n)
				require.True(t, bytes.Equal(src.Bytes(), dst.Bytes()), "%d workers", workers)
			}
			handed := e.ctx[0].Stats().HandedOver
			t.Logf("%d workers, units of %v: %d batches handed over", workers, unit, handed)
			switch {
			case workers == 1:
				require.Zero(t, handed)
			case unit == 64*units.KiB: // what is sent is large enough, always: half of it, up to 64 packets at a time
				require.GreaterOrEqual(t, handed, uint64(3*n/4/(64*4096)))
			}
			e.close(t)
		}
	}
}

// TestCloseWhileHandedOver closes connections while other workers post for them.
func TestCloseWhileHandedOver(t *testing.T) {
	for range 10 {
		e := overWorkers(t, 3, 0)
		const n = 16 * units.MiB
		src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
		r, err := e.conn[1].StartRecv(dst, 0, n)
		require.NoError(t, err)
		s, err := e.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return e.ctx[0].Stats().HandedOver > 0 }, 10*time.Second, 10*time.Microsecond)
		require.NoError(t, e.conn[0].Close())
		<-s.Done()
		require.NoError(t, e.conn[1].Close())
		<-r.Done()
		require.NoError(t, src.Close(), "nothing reads it any more")
		e.close(t)
	}
}

// BenchmarkWorkers has so many workers at each end, of which one receives.
func BenchmarkWorkers(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			e := overWorkers(b, workers, 0)
			const n = 64 * units.MiB
			src, dst := e.alloc(b, 0, n), e.alloc(b, 1, n)
			e.move(b, src, dst, n)
			b.SetBytes(int64(n))
			before := processorTime(b)
			for b.Loop() {
				e.move(b, src, dst, n)
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)*float64(n)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
			e.close(b)
		})
	}
}
