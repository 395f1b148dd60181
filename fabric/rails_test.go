// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestRails: the flows of a host with several NICs take them in turn, at both ends those of one number,
// and each has a link for itself; data and acknowledgements stay on it.
func TestRails(t *testing.T) {
	const rails = 4
	g, err := topo.Parse("leafspine:8x4x2,400G,1us,rails=4") // 8 hosts, in two groups of 4
	require.NoError(t, err)
	require.Len(t, g.Hosts(), 8)
	flows := func(dst, n int) (all []workload.Flow) {
		for range n {
			all = append(all, workload.Flow{Src: 0, Dst: dst, Size: 100 * 4096})
		}
		return all
	}
	// Within a group flows of one number meet at one leaf only: each takes the time it takes alone, to
	// the picosecond, and two on each rail take a packet each in turn.
	s := build(t, g, Config{CheckEvery: 64, PortCounters: true}, flows(1, rails))
	s.Run(des.Never)
	for i := range rails {
		require.Equal(t, s.Standalone(i), s.Flow(i).FCT)
		require.Equal(t, 2*micro+2*ser400+99*ser400+2*(micro+ack400), s.Flow(i).FCT)
		require.Equal(t, Port{Packets: 100, Bytes: 100 * 4160}, s.Port(0, i))
		require.Equal(t, Port{Packets: 100, Bytes: 100 * 64}, s.Port(1, i), "ACKs leave by the NIC that the data came to")
		for j := range rails {
			leaf := s.Port(8+i, 4+j%2) // its links up
			require.Zero(t, leaf.Packets)
		}
	}
	s = build(t, g, Config{CheckEvery: 64}, flows(1, 2*rails))
	s.Run(des.Never)
	for i := range 2 * rails {
		require.InEpsilon(t, float64(s.Standalone(i)+100*ser400), float64(s.Flow(i).FCT), 0.02)
	}
	// Each flow has a link for itself across groups, too.
	s = build(t, g, Config{CheckEvery: 64}, flows(7, rails))
	s.Run(des.Never)
	for i := range rails {
		require.Equal(t, 4*micro+4*ser400+99*ser400+4*(micro+ack400), s.Flow(i).FCT)
	}

	// A NIC whose link is down is passed over; a graph whose host has no NIC left is refused.
	g.Links[1].Down = true // of host 0
	s = build(t, g, Config{CheckEvery: 64, PortCounters: true}, flows(1, rails))
	s.Run(des.Never)
	require.True(t, s.Done())
	require.Zero(t, s.Port(0, 1).Packets)
	require.EqualValues(t, 200, s.Port(0, 2).Packets, "flows 1 and 2")
	for i := range rails {
		g.Links[i].Down = true
	}
	_, err = New(g, Config{})
	require.ErrorContains(t, err, "host h0 has no working link")
}

// TestRailsAreApart: a rail without a way to others carries what stays on it.
func TestRailsAreApart(t *testing.T) {
	g := &topo.Graph{Nodes: []topo.Node{{Name: "a"}, {Name: "b"}, {Kind: topo.Switch, Name: "s0", Tier: 1}, {Kind: topo.Switch, Name: "s1", Tier: 1}}}
	for h := range 2 {
		for r := range 2 {
			g.Links = append(g.Links, topo.Link{A: h, B: 2 + r, Rate: 100 * units.Gbit, Delay: units.Microsecond})
		}
	}
	s := build(t, g, Config{CheckEvery: 16, PortCounters: true}, []workload.Flow{{Src: 0, Dst: 1, Size: units.MiB}, {Src: 0, Dst: 1, Size: units.MiB}, {Src: 1, Dst: 0, Size: units.MiB}})
	s.Run(des.Never)
	require.True(t, s.Done())
	require.Equal(t, s.Standalone(1), s.Flow(1).FCT)
	require.NotZero(t, s.Port(2, 1).Packets)
	require.NotZero(t, s.Port(3, 1).Packets)
}
