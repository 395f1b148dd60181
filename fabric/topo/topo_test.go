// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// degrees returns how many ports each node of a tier has; all must have the same.
func degree(t *testing.T, g *Graph, tier int) int {
	t.Helper()
	at, d := g.adjacency(), -1
	for i, n := range g.Nodes {
		if n.Tier != tier {
			continue
		}
		if d < 0 {
			d = len(at[i])
		}
		require.Len(t, at[i], d, "node %d of tier %d", i, tier)
	}
	return d
}

func count(g *Graph, tier int) (n int) {
	for _, x := range g.Nodes {
		if x.Tier == tier {
			n++
		}
	}
	return n
}

func TestStar(t *testing.T) {
	g, err := Parse("star:5,25gbit,2us")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3, 4}, g.Hosts())
	require.Len(t, g.Links, 5)
	require.Equal(t, Link{A: 4, B: 5, Rate: 25 * units.Gbit, Delay: 2 * units.Microsecond}, g.Links[4])
}

// The network of STrack's evaluation: 8192 hosts at 128 leaves, 64 spines.
func TestLeafSpine(t *testing.T) {
	g, err := Parse("leafspine:128x64x64,400G,1us")
	require.NoError(t, err)
	require.Len(t, g.Hosts(), 8192)
	require.Equal(t, 8191, g.Hosts()[8191])
	require.Len(t, g.Links, 8192+128*64)
	require.Equal(t, []int{1, 128, 128}, []int{degree(t, g, 0), degree(t, g, 1), degree(t, g, 2)})
	require.Equal(t, 8192+3, g.Links[64*3+5].B, "host 197 is at leaf 3")
	for _, l := range g.Links {
		require.Equal(t, 400*units.Gbit, l.Rate)
		require.Equal(t, units.Microsecond, l.Delay)
	}

	g, err = Parse("leafspine:128x64x64,400G,1us,oversub=4")
	require.NoError(t, err)
	require.Equal(t, 16, count(g, 2))
	require.Equal(t, 80, degree(t, g, 1))

	g, err = Parse("leafspine:4x2x2,100G,up=400G,updelay=3us")
	require.NoError(t, err)
	require.Equal(t, Link{A: 8, B: 12, Rate: 400 * units.Gbit, Delay: 3 * units.Microsecond}, g.Links[8])
}

// fail=16x4: four links up of each of 16 leaves, at different spines.
func TestLeafSpineFailures(t *testing.T) {
	g, err := Parse("leafspine:128x64x64,400G,1us,fail=16x4")
	require.NoError(t, err)
	leaves, spines := map[int]int{}, map[int]int{}
	for _, l := range g.Links {
		if l.Down {
			leaves[l.A]++
			spines[l.B]++
		}
	}
	require.Len(t, leaves, 16)
	require.Greater(t, len(spines), 30)
	for _, n := range leaves {
		require.Equal(t, 4, n)
	}
}

func TestFatTree(t *testing.T) {
	for _, k := range []int{2, 4, 8} {
		g, err := FatTree(k, Wire{100 * units.Gbit, units.Microsecond})
		require.NoError(t, err)
		require.Len(t, g.Hosts(), k*k*k/4)
		require.Equal(t, []int{k * k / 2, k * k / 2, k * k / 4}, []int{count(g, 1), count(g, 2), count(g, 3)})
		require.Equal(t, []int{1, k, k, k}, []int{degree(t, g, 0), degree(t, g, 1), degree(t, g, 2), degree(t, g, 3)})
		// Each core switch has one link to each pod.
		cores := len(g.Nodes) - count(g, 3)
		pods := map[[2]int]int{}
		for _, l := range g.Links {
			if l.B >= cores {
				pods[[2]int{l.B, (l.A - count(g, 0) - count(g, 1)) / (k / 2)}]++
			}
		}
		require.Len(t, pods, k*k/4*k)
	}
}

func TestRefusesImpossible(t *testing.T) {
	w := Wire{100 * units.Gbit, units.Microsecond}
	for _, tc := range []struct {
		make func() (*Graph, error)
		want string
	}{
		{func() (*Graph, error) { return Star(1, w) }, "at least two"},
		{func() (*Graph, error) { return Star(5, Wire{0, 0}) }, "its rate is 0 bit/s"},
		{func() (*Graph, error) { return Star(5, Wire{maxRate + 1, 0}) }, "its rate is 10000000000001 bit/s: must be above 0, at most 10 Tbit/s"},
		{func() (*Graph, error) { return FatTree(5, w) }, "even number"},
		{func() (*Graph, error) { return FatTree(128, w) }, "choose smaller numbers"},
		{func() (*Graph, error) { return LeafSpine(Clos{Leaves: 2, Hosts: 2, Down: w, Up: w}) }, "each must be at least 1"},
		{func() (*Graph, error) {
			return LeafSpine(Clos{Leaves: 6, Hosts: 2, Spines: 2, Down: w, Up: w, Rails: 4})
		}, "leaves must be a multiple"},
		{func() (*Graph, error) { return DC2(-1) }, "its delay is -1ns"},
	} {
		_, err := tc.make()
		require.ErrorContains(t, err, tc.want)
	}
	two := func(links ...Link) *Graph {
		return &Graph{Nodes: []Node{{Kind: Host, Name: "a"}, {Kind: Host}, {Kind: Switch}, {Kind: Switch}}, Links: links}
	}
	up := func(a, b int) Link { return Link{A: a, B: b, Rate: units.Gbit} }
	require.NoError(t, two(up(0, 2), up(1, 2)).Validate())
	require.NoError(t, two(up(0, 1)).Validate(), "back to back")
	require.ErrorContains(t, two(up(0, 2), up(1, 3)).Validate(), "no working path from host a to host 1")
	require.NoError(t, two(up(0, 2), up(1, 2), up(1, 3)).Validate(), "two NICs")
	require.ErrorContains(t, two(up(0, 2), up(1, 9)).Validate(), "link 1: it connects 1 and 9, but nodes are 0 to 3")
	require.ErrorContains(t, two(up(0, 2), up(1, 2), up(1, 1)).Validate(), "connects host 1 with itself")
	require.ErrorContains(t, two(up(0, 2), Link{A: 1, B: 2, Rate: 1, Down: true}).Validate(), "host 1 has no working link")
}
