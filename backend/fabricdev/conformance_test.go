// SPDX-License-Identifier: Apache-2.0

package fabricdev_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/fabricdev"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConformance runs the suite on networks that keep the order, that spray and so change it, that lose,
// and beside flows of others.
func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name   string
		cfg    fabric.Config
		loss   float64
		spray  bool
		others int // messages of others
	}{
		{name: "quiet"},
		{name: "lossy", loss: 0.02},
		{name: "sprayed", spray: true},
		{name: "busy", others: 20, cfg: fabric.Config{
			Buffer: fabric.Buffer{Size: 4 * units.MiB, PFC: true}, ECN: []fabric.ECN{{KMin: 20_000, KMax: 80_000, PMax: 0.2}},
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
				spray := kind.spray || ask.Reorder > 0
				loss := max(kind.loss, ask.Loss)
				n, a, b := pair(t, kind.cfg, spray, loss)
				if kind.others > 0 {
					crossPair(t, n, kind.others)
				}
				p := &backendtest.Pair{
					A: a, B: b, Advance: n.Advance, Next: n.Next, Faults: backendtest.Faults{Loss: loss}, Marks: len(kind.cfg.ECN) > 0,
				}
				if spray {
					p.Faults.Reorder = 0.5
				}
				return p
			}, sdrtest.Cases()...)
		})
	}
}

// pair makes devices on the first hosts of two leaves with two spines between, which may be sprayed
// over though one is farther away, and a link at the first that may lose packets.
func pair(t testing.TB, cfg fabric.Config, spray bool, loss float64) (*fabricdev.Network, *fabricdev.Device, *fabricdev.Device) {
	g, err := topo.Parse("leafspine:2x2x2,100G,1us")
	require.NoError(t, err)
	hosts := g.Hosts()
	cfg.Seed, cfg.CheckEvery = 1, 1009
	if spray {
		cfg.Routing.Mode = fabric.Random
		for i := range g.Links {
			if l := &g.Links[i]; g.Nodes[l.A].Kind == topo.Switch && l.B == len(g.Nodes)-1 {
				l.Delay += 3 * units.Microsecond
			}
		}
	}
	if loss > 0 {
		cfg.Faults = []fabric.Fault{{Link: linkOf(g, hosts[0]), Loss: netsim.Loss{Drop: loss}}}
	}
	n, err := fabricdev.New(g, fabricdev.Config{Fabric: cfg})
	require.NoError(t, err)
	a, err := n.Device(hosts[0])
	require.NoError(t, err)
	b, err := n.Device(hosts[2])
	require.NoError(t, err)
	return n, a, b
}

// linkOf is the link of a host.
func linkOf(g *topo.Graph, host int) int {
	for i, l := range g.Links {
		if l.A == host || l.B == host {
			return i
		}
	}
	panic("a host without a link")
}

// crossPair has the hosts beside the two send each other messages through their spines, and to them.
func crossPair(t testing.TB, n *fabricdev.Network, messages int) {
	var flows []workload.Flow
	for i := range messages {
		at := units.Instant(i) * units.Instant(20*units.Microsecond)
		flows = append(flows,
			workload.Flow{Src: 1, Dst: 3, Size: 300_000, Start: at}, workload.Flow{Src: 3, Dst: 0, Size: 200_000, Start: at},
			workload.Flow{Src: 1, Dst: 2, Size: 200_000, Start: at})
	}
	require.NoError(t, n.Fabric().AddFlows(flows))
}
