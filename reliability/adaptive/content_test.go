// SPDX-License-Identifier: Apache-2.0

package adaptive_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Exactly the content sent arrives, though much of it is computed: with real parity
// over a simulated link that loses, in bursts and across channels of different delay.
func TestContentArrives(t *testing.T) {
	for seed, link := range []sim.Link{
		{Delay: units.Millisecond, Loss: sim.Loss{Drop: 0.01}},
		{Delay: units.Millisecond, Loss: sim.Loss{Drop: 0.05, Burst: 8}},
		{Delay: units.Millisecond, Loss: sim.Loss{Drop: 0.02}, ChannelDelay: []units.Duration{0, 300 * units.Microsecond}},
		{Delay: units.Millisecond, Loss: sim.Loss{Drop: 0.01}, Reorder: 0.1, ReorderDelay: 100 * units.Microsecond, Duplicate: 0.01},
	} {
		net, err := sim.New(sim.Config{Seed: uint64(seed), Rate: 10 * units.Gbit, Link: link})
		require.NoError(t, err)
		var ctx [2]*sdr.Endpoint
		var conn [2]*reliability.Conn
		for i, dev := range []*sim.Device{net.A(), net.B()} {
			ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(seed), byte(i)})})
			require.NoError(t, err)
			cfg := reliability.Config{Scheme: newScheme(), Rate: 9 * units.Gbit}
			conn[i], err = reliability.NewConn(ctx[i], sdr.QPConfig{MTU: 4096, SendDepth: 1 << 12}, cfg)
			require.NoError(t, err)
		}
		run := func(done func() bool) {
			limit := net.Now().Add(100 * units.Second)
			for !done() {
				require.Less(t, net.Now(), limit, "link %d", seed)
				soonest := net.Next()
				for i := range ctx {
					soonest = min(soonest, ctx[i].Progress(net.Now()))
				}
				net.Advance(max(min(soonest, net.Next(), limit), net.Now()))
			}
		}
		for i := range 2 {
			require.NoError(t, conn[i].StartConnect(conn[1-i].Info()))
		}
		run(func() bool {
			a, _ := conn[0].Connected()
			b, _ := conn[1].Connected()
			return a && b
		})
		for _, n := range []int{1, 5000, 100_000, 8<<20 + 77, 3 << 20, 4096} {
			src, dst := make([]byte, n), make([]byte, n)
			_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(src)
			from, err := ctx[0].RegisterMemory(src, 0)
			require.NoError(t, err)
			to, err := ctx[1].RegisterMemory(dst, sdr.AccessRemoteWrite)
			require.NoError(t, err)
			r, err := conn[1].StartRecv(to, 0, units.Bytes(n))
			require.NoError(t, err)
			s, err := conn[0].StartSend(from, 0, units.Bytes(n), reliability.SendOptions{})
			require.NoError(t, err)
			run(func() bool { return finished(r) && finished(s) })
			require.NoError(t, r.Err())
			require.NoError(t, s.Err())
			require.True(t, bytes.Equal(src, dst), "link %d, %d bytes", seed, n)
		}
		got := conn[1].Stats().Units
		t.Logf("link %d: %d recovered; %s", seed, got.Recovered, conn[0].Stats().Units.Explain)
		require.Positive(t, got.Recovered, "link %d", seed)
		for i := range ctx {
			require.NoError(t, ctx[i].Close())
		}
	}
}

func finished(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}
