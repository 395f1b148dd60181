// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestDefaultsWithEightProcessors moves transfers of 8 MiB over 25 ms, 1 Gbit/s and a drop rate of 2e-3
// per packet with nothing chosen but the scheme and the rate, as on a host with eight processors, and as
// with one worker. The defaults of device and Endpoint must suit each other: when channels were at home
// at workers that receive nothing, their losses were noticed by timers only, and a transfer took 1.35 of
// the ideal instead of 1.02.
func TestDefaultsWithEightProcessors(t *testing.T) {
	const rounds = 8
	if race.Enabled {
		t.Log("the race detector slows it: times are not compared")
	}
	mean := func(procs int) float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		const n = 8 * units.MiB
		e := overSockets(t, linkemu.Config{RTT: 25 * ms, Rate: units.Gbit, Drop: 2e-3, Seed: 11},
			reliability.Config{Rate: 980 * units.Mbit}, func() scheme.Scheme {
				s, err := adaptive.New(adaptive.Config{})
				require.NoError(t, err)
				return s
			})
		defer e.close(t)
		src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
		for i := range src.Bytes() {
			src.Bytes()[i] = byte(i * 31 >> 7)
		}
		e.move(t, src, dst, n) // learns the drop rate
		var took time.Duration
		for range rounds {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			done := make(chan error, 1)
			go func() { _, err := e.conn[1].Recv(ctx, dst, 0, n); done <- err }()
			time.Sleep(30 * time.Millisecond) // the clear-to-send is there
			begun := time.Now()
			require.NoError(t, e.conn[0].Send(ctx, src, 0, n, reliability.SendOptions{}))
			took += time.Since(begun)
			require.NoError(t, <-done)
			cancel()
		}
		require.Equal(t, src.Bytes(), dst.Bytes())
		return took.Seconds() / rounds / (units.Gbit.Time(n) + 25*ms).Seconds()
	}
	var two, eight float64
	for range 3 {
		two, eight = mean(2), mean(8)
		t.Logf("%.3f of the ideal time with two processors, %.3f with eight", two, eight)
		if race.Enabled || eight < 1.15*two {
			return
		}
	}
	require.Fail(t, "the defaults are slow where there are eight processors, three times in a row")
}
