// SPDX-License-Identifier: Apache-2.0

package fabricdev_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestFirstPacketInAnOutage: what is sent to a host that nothing leads to is lost, also by a device that had not sent to it before, and
// arrives once the link is up again. Either end's link may be the one.
func TestFirstPacketInAnOutage(t *testing.T) {
	for _, end := range []int{0, 2} {
		g, err := topo.Parse("leafspine:2x2x2,100G,1us")
		require.NoError(t, err)
		n, a, b := pair(t, fabric.Config{}, false, 0)
		link := linkOf(g, end)
		n.Fabric().SetDown(link, true)
		var ctx [2]*sdr.Endpoint
		var conn [2]*reliability.Conn
		for i, dev := range []backend.Device{a, b} {
			ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{})
			require.NoError(t, err)
			scheme, err := sr.New(sr.Config{Mode: sr.NACK})
			require.NoError(t, err)
			conn[i], err = reliability.NewConn(ctx[i], sdr.QPConfig{MTU: 4096}, reliability.Config{Scheme: scheme})
			require.NoError(t, err)
		}
		for i := range conn {
			require.NoError(t, conn[i].StartConnect(conn[1-i].Info()))
		}
		connected := func() bool {
			x, err := conn[0].Connected()
			require.NoError(t, err)
			y, err := conn[1].Connected()
			require.NoError(t, err)
			return x && y
		}
		run := func(until units.Instant) {
			for now := n.Now(); now < until && !connected(); now = n.Now() {
				n.Run(max(now, min(until, ctx[0].Progress(now), ctx[1].Progress(now))))
			}
		}
		run(units.Instant(20 * units.Millisecond))
		require.False(t, connected())
		n.Fabric().SetDown(link, false)
		run(units.Instant(5 * units.Second))
		require.True(t, connected())
	}
}
