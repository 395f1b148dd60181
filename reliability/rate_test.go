// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A convoy sends transfers of one size from side 0 to side 1, so many under way at a time, each end in a goroutine that waits for the
// oldest.
type convoy struct {
	e        *sides
	src, dst *sdr.MR
	size     units.Bytes
	inflight int
}

func newConvoy(t testing.TB, e *sides, size units.Bytes, inflight int) *convoy {
	n := units.Bytes(inflight) * size
	return &convoy{e, e.alloc(t, 0, n), e.alloc(t, 1, n+4*size), size, inflight}
}

// run moves n transfers.
func (c *convoy) run(t testing.TB, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	side := func(under int, start func(i int) (*reliability.Transfer, error)) error {
		ring := make([]*reliability.Transfer, under)
		for i := range n + under {
			x := &ring[i%under]
			if i >= under {
				if i-under >= n || *x == nil {
					continue
				}
				if err := (*x).Wait(ctx); err != nil {
					return err
				}
				*x = nil
			}
			if i < n {
				var err error
				if *x, err = start(i); err != nil {
					return err
				}
			}
		}
		return nil
	}
	done := make(chan error, 1)
	ahead := c.inflight + min(c.inflight, 4)
	go func() {
		done <- side(ahead, func(i int) (*reliability.Transfer, error) {
			return c.e.conn[1].StartRecv(c.dst, units.Bytes(i%ahead)*c.size, c.size)
		})
	}()
	require.NoError(t, side(c.inflight, func(i int) (*reliability.Transfer, error) {
		return c.e.conn[0].StartSend(c.src, units.Bytes(i%c.inflight)*c.size, c.size, reliability.SendOptions{})
	}))
	require.NoError(t, <-done)
}

// processorTime is what this process has spent, in the kernel, too.
func processorTime(t testing.TB) time.Duration {
	var r unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkMessages moves messages with 16 under way, and says what one of them costs both ends in processor time: on a machine that
// others use, too, that says more than the time it took.
func BenchmarkMessages(b *testing.B) {
	for _, name := range []string{"sr", "adaptive"} {
		for _, size := range []units.Bytes{4 * units.KiB, 16 * units.KiB, 64 * units.KiB, 256 * units.KiB, units.MiB, 64 * units.MiB} {
			b.Run(fmt.Sprintf("%s/%v", name, size), func(b *testing.B) {
				e := overSockets(b, linkemu.Config{}, reliability.Config{}, allSchemes(b)[name])
				c := newConvoy(b, e, size, int(min(16, max(2, 64*units.MiB/size))))
				c.run(b, 64)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				b.ResetTimer()
				before := processorTime(b)
				c.run(b, b.N)
				b.StopTimer()
				b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
				e.close(b)
			})
		}
	}
}
