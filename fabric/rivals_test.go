// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/transport/mprdma"
	"github.com/sdr-rdma/go-sdr/transport/racktlp"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/transport/uet"
	"github.com/sdr-rdma/go-sdr/units"
)

// MP-RDMA over eight paths with PFC: nothing is dropped, nothing is repeated, no path is left out and all that the hosts' links carry
// is nearly used, although half of the links up are slower.
func TestMPRDMASpreads(t *testing.T) {
	g := leafSpine(2, 4, 8, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
	hosts := 8
	for i := hosts; i < len(g.Links); i++ {
		if (i-hosts)%8 >= 4 {
			g.Links[i].Rate = 50 * units.Gbit
		}
	}
	s := build(t, g, Config{
		MTU: 1000, Header: 48, AckSize: 60, CheckEvery: 10_000, Transport: (&mprdma.Config{}).Factory(), Routing: Routing{Mode: Entropy},
		Buffer: Buffer{Size: 8 * units.MiB, PFC: true}, ECN: []ECN{{KMin: 100 * units.KB, KMax: 400 * units.KB, PMax: 0.2}}, PortCounters: true,
	}, nil)
	flows, err := workload.Halves([]int{0, 1, 2, 3, 4, 5, 6, 7}, 4*units.MB)
	require.NoError(t, err)
	require.NoError(t, s.AddFlows(flows))
	s.Run(des.Never)
	require.True(t, s.Done())
	r := s.Result()
	require.Zero(t, r.Drops.Queue+r.Drops.Buffer)
	require.Zero(t, r.Packets.Retransmitted)
	for i := range flows {
		slowdown := float64(s.Flow(i).FCT) / float64(s.Standalone(i))
		t.Logf("flow %d: %.3f of the time alone", i, slowdown)
		require.Less(t, slowdown, 1.5)
	}
	for up := range 8 {
		p := s.Port(hosts, 4+up) // of the first leaf
		t.Logf("link %d: %d packets", up, p.Packets)
		require.Greater(t, p.Packets, uint64(100))
	}
}

// RACK-TLP's goodput under forced losses is that of selective repeat, 1−p, as long as the window has room for what is being
// repaired; without timeouts, although repeats are lost, too.
func TestRACKGoodput(t *testing.T) {
	for _, p := range []float64{1e-3, 1e-2, 5e-2} {
		s := build(t, star(2, 100*units.Gbit, units.Microsecond), Config{
			MTU: 1000, Header: 48, AckSize: 60, CheckEvery: 50_000, Forced: p, Transport: (&racktlp.Config{Window: units.MB}).Factory(),
		}, []workload.Flow{{Src: 0, Dst: 1, Size: 20 * units.MB}})
		s.Run(des.Never)
		require.True(t, s.Done())
		f := s.Flow(0)
		goodput := float64(f.Size) * 1.048 * 8 / (float64(f.Received-f.Start) / 1e12) / 100e9
		r := s.Result()
		t.Logf("p = %g: %.4f of the line; %d lost, %d repeated, %d timeouts", p, goodput, r.Drops.Forced, r.Packets.Retransmitted, r.Timeouts)
		require.InEpsilon(t, 1-p, goodput, 0.02)
		require.Zero(t, r.Timeouts)
		require.InDelta(t, float64(r.Drops.Forced), float64(r.Packets.Retransmitted), 2, "but for a probe at the end")
	}
}

// Two paths, one with a tenth of the other's rate: routing by the time that queues take keeps both busy to the end, so that DCP
// gets all that they carry but for headers (figure 11); by bytes the slow one is what is left at the end.
func TestWeightedRouting(t *testing.T) {
	share := map[bool]float64{}
	for _, weighted := range []bool{false, true} {
		g, err := topo.Parse("leafspine:2x2x2,100G,1us,slow=1x10")
		require.NoError(t, err)
		c := dcpConfig(t, dcp.Config{})
		c.Trim.Threshold, c.Routing.Weighted, c.Buffer.Size = 0, weighted, 8*units.MiB
		s := build(t, g, c, nil)
		hosts := g.Hosts()
		flows, err := workload.Halves(hosts, 8*units.MB)
		require.NoError(t, err)
		require.NoError(t, s.AddFlows(flows))
		s.Run(des.Never)
		require.True(t, s.Done())
		last := max(s.Flow(0).Received, s.Flow(1).Received)
		share[weighted] = 16e6 * 1.048 * 8 / (float64(last) / 1e12) / 110e9
		if r := s.Result(); weighted {
			require.Equal(t, r.Packets.Trimmed, r.Packets.Retransmitted)
			require.Zero(t, r.Timeouts)
		}
	}
	t.Logf("of what both paths carry: by bytes %.4f, by time %.4f", share[false], share[true])
	require.Greater(t, share[true], 0.95)
	require.Less(t, share[false], 0.9)
}

// On a way of 20 ms and more no transport's default timeout is over before an answer can be there, nor, where it has several timers, before the
// others have had their turn: nothing is repeated, but for one packet as a probe.
func TestTimeoutsAllowForTheWay(t *testing.T) {
	for name, f := range map[string]transport.Factory{
		"gbn": (&rc.Config{}).Factory(), "irn": (&rc.Config{Mode: rc.IRN}).Factory(), "timeout": (&rc.Config{Mode: rc.Timeout}).Factory(),
		"racktlp": (&racktlp.Config{}).Factory(), "mprdma": (&mprdma.Config{}).Factory(), "dcp": (&dcp.Config{}).Factory(),
		"strack": must((&strack.Config{}).Factory()), "uet": must((&uet.Config{}).Factory()),
	} {
		for _, size := range []units.Bytes{1, 10 * units.MB} {
			s := build(t, star(2, 100*units.Gbit, 5*units.Millisecond), Config{Transport: f}, []workload.Flow{{Src: 0, Dst: 1, Size: size}})
			s.Run(des.Never)
			r := s.Result()
			require.Zero(t, r.Timeouts, "%s, %v", name, size)
			require.LessOrEqual(t, r.Packets.Retransmitted, uint64(1), "%s, %v", name, size)
		}
	}
}
