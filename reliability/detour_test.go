// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestPathBecomesLonger: a connection that lasts outlives the way that its packets took at first. A minute after another one, which is
// longer, has taken its place, transfers take what they would on a connection that knows no other.
func TestPathBecomesLonger(t *testing.T) {
	const rate = 200 * units.Mbit
	const n = 4 * units.MiB
	for _, control := range []string{"auto", "search"} {
		for _, way := range []struct{ short, long units.Duration }{{10 * ms, 80 * ms}, {200 * units.Microsecond, 20 * ms}} {
			spec, err := congestion.Parse(control)
			require.NoError(t, err)
			link := func(rtt units.Duration) sim.Link {
				return sim.Link{Rate: rate, Delay: rtt / 2, Queue: max(rate.Bytes(rtt), 128*units.KiB)}
			}
			p := newPair(t, setup{
				net: sim.Config{Rate: 10 * rate, Seed: 5, RecvBurst: 128 * units.KiB, Link: link(way.short)}, qp: sdr.QPConfig{MTU: 4096},
				conn: reliability.Config{Congestion: spec}, scheme: newAdaptive(t),
			})
			for range 10 {
				p.timed(n)
			}
			require.Less(t, p.conn[0].QP().Stats().MinRTT, way.short+ms/2)
			for _, d := range []sim.Direction{sim.AtoB, sim.BtoA} {
				require.NoError(t, p.net.SetLink(d, link(way.long)))
			}
			for begun := p.net.Now(); p.net.Now().Sub(begun) < 65*units.Second; {
				p.timed(n)
				p.run(2 * units.Second)
			}
			ideal, sum := rate.Time(n)+way.long, units.Duration(0)
			for range 10 {
				sum += p.timed(n)
			}
			require.Less(t, float64(sum)/10/float64(ideal), 1.4, "%s, %v", control, way)
		}
	}
}
