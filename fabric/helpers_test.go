// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

// star is n hosts on one switch, which is node n.
func star(n int, rate units.Rate, delay units.Duration) *topo.Graph {
	g := &topo.Graph{}
	for range n {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Host})
	}
	g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Switch, Name: "switch", Tier: 1})
	for i := range n {
		g.Links = append(g.Links, topo.Link{A: i, B: n, Rate: rate, Delay: delay})
	}
	return g
}

// leafSpine is hosts 0 to leaves·perLeaf-1, then the leaves, then the spines; links of hosts first.
func leafSpine(leaves, perLeaf, spines int, rate, up units.Rate, delay units.Duration) *topo.Graph {
	g := &topo.Graph{}
	hosts := leaves * perLeaf
	for range hosts {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Host})
	}
	for i := range leaves {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Switch, Name: fmt.Sprint("leaf", i), Tier: 1})
	}
	for i := range spines {
		g.Nodes = append(g.Nodes, topo.Node{Kind: topo.Switch, Name: fmt.Sprint("spine", i), Tier: 2})
	}
	for h := range hosts {
		g.Links = append(g.Links, topo.Link{A: h, B: hosts + h/perLeaf, Rate: rate, Delay: delay})
	}
	for l := range leaves {
		for p := range spines {
			g.Links = append(g.Links, topo.Link{A: hosts + l, B: hosts + leaves + p, Rate: up, Delay: delay})
		}
	}
	return g
}

// permutation has each host send to one other, each to be sent to by one.
func permutation(hosts int, size units.Bytes, seed uint64) []workload.Flow {
	r := rand.New(rand.NewPCG(seed, 1))
	to := r.Perm(hosts)
	for i := range to {
		if to[i] == i {
			j := (i + 1) % hosts
			to[i], to[j] = to[j], to[i]
		}
	}
	flows := make([]workload.Flow, hosts)
	for i, d := range to {
		flows[i] = workload.Flow{Src: i, Dst: d, Size: size}
	}
	return flows
}

func build(t testing.TB, g *topo.Graph, c Config, flows []workload.Flow) *Sim {
	t.Helper()
	s, err := New(g, c)
	require.NoError(t, err)
	require.NoError(t, s.AddFlows(flows))
	return s
}
