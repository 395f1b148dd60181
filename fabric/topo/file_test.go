// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// ns3 writes a graph as ns-3 has it.
func ns3(g *Graph) string {
	var b strings.Builder
	switches := ""
	n := 0
	for i, x := range g.Nodes {
		if x.Kind == Switch {
			switches += fmt.Sprint(i, " ")
			n++
		}
	}
	fmt.Fprintf(&b, "%d %d %d\n%s\n", len(g.Nodes), n, len(g.Links), switches)
	for _, l := range g.Links {
		fmt.Fprintf(&b, "%d %d %dGbps %dns %f\n", l.A, l.B, l.Rate/units.Gbit, l.Delay, l.Loss)
	}
	return b.String()
}

// The network of THEMIS in its authors' format and numbering: from the paper's figure 1, by hand.
func TestDC2AsNS3HasIt(t *testing.T) {
	g, err := DC2(500 * units.Microsecond)
	require.NoError(t, err)
	want := strings.Split(ns3(g), "\n")
	require.Equal(t, "50 18 75", want[0])
	require.Equal(t, "32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 ", want[1])
	for line, text := range map[int]string{
		3: "0 32 100Gbps 1000ns 0.000000", 31: "28 39 100Gbps 1000ns 0.000000", 35: "32 40 100Gbps 1000ns 0.000000",
		38: "32 43 100Gbps 1000ns 0.000000", 51: "36 44 100Gbps 1000ns 0.000000", 67: "40 48 400Gbps 1000ns 0.000000",
		71: "44 49 400Gbps 1000ns 0.000000", 75: "48 49 1600Gbps 500000ns 0.000000",
		76: "49 49 1600Gbps 100ns 0.000000", 77: "48 48 1600Gbps 100ns 0.000000",
	} {
		require.Equal(t, text, want[line-1])
	}
}

func TestReadNS3(t *testing.T) {
	for _, spec := range []string{"dc2", "leafspine:4x4x2", "fattree:4,400G,2us"} {
		want, err := Parse(spec)
		require.NoError(t, err)
		got, err := ReadNS3(strings.NewReader(ns3(want) + "\nFirst line: total node #, switch node #, link #\n"))
		require.NoError(t, err)
		require.Equal(t, want.Links, got.Links)
		for i, n := range want.Nodes {
			require.Equal(t, n.Kind, got.Nodes[i].Kind)
		}
	}
	g, err := ReadNS3(strings.NewReader("3 1 2\n0\n0 1 40Gbps 0.0001ms\n0 2 40Gbps 0.0001ms 0.25\n"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, g.Hosts())
	require.Equal(t, Link{A: 0, B: 2, Rate: 40 * units.Gbit, Delay: 100, Loss: 0.25}, g.Links[1])
}

func TestReadNS3Refuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "line 0: unexpected EOF",
		"3 1":                                    "line 1: want the numbers of nodes",
		"3 4 1\n":                                "line 1: want the numbers of nodes",
		"999999999 1 1\n":                        "at most 262144",
		"3 1 2\n7\n":                             `line 2: switch "7": want a node from 0 to 2`,
		"3 2 2\n0 0\n":                           "switch 0 is there twice",
		"3 1 2\n0 1\n":                           "2 switches, but the first line says 1",
		"3 1 2\n0\n0 1 40Gbps\n":                 `line 3: want a link such as`,
		"3 1 2\n0\n0 1 40Gbps 1us\n":             "line 3: unexpected EOF, behind 1 of 2 links",
		"3 1 2\n0\n0 5 40Gbps 1us\n":             "its nodes from 0 to 2",
		"3 1 2\n0\n0 1 40 1us\n":                 "the unit is missing",
		"3 1 2\n0\n0 1 40Gbps 1us x\n":           `the loss "x" is no number`,
		"3 1 2\n0\n0 1 40Gbps 1us 2\n":           "its loss is 2 per packet",
		"3 1 1\n0\n0 1 40Gbps 1us\n":             "host h2 has no working link",
		"3 1 2\n0\n0 1 1Gbps 1us\n0 1 1Gbps 1us": "host h2 has no working link",
	} {
		_, err := ReadNS3(strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
		require.NotContains(t, err.Error(), "\n")
	}
}

const htsimLeafSpine = `# comment
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Queue_Down 5000
`

func TestReadHtsim(t *testing.T) {
	got, err := ReadHtsim(strings.NewReader(htsimLeafSpine))
	require.NoError(t, err)
	want, err := Parse("leafspine:4x8x8,oversub=4")
	require.NoError(t, err)
	require.Equal(t, want.Links, got.Links)

	// Three tiers, with two links between each aggregation and core switch, and slow switches.
	in := `Nodes 8
Tiers 3
Podsize 4
Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 20
Tier 1
downlink_speed_gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 40
Bundle 1
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 3000
Bundle 2
`
	got, err = ReadHtsim(strings.NewReader(in))
	require.NoError(t, err)
	require.Equal(t, []int{8, 4, 4, 4}, []int{count(got, 0), count(got, 1), count(got, 2), count(got, 3)})
	require.Equal(t, []int{1, 4, 6, 4}, []int{degree(t, got, 0), degree(t, got, 1), degree(t, got, 2), degree(t, got, 3)})
	require.Equal(t, units.Duration(1010), got.Links[0].Delay)
	require.Equal(t, units.Duration(1030), got.Links[8].Delay)
	require.Equal(t, Link{A: 12, B: 16, Rate: 100 * units.Gbit, Delay: 3020}, got.Links[16])
	require.Equal(t, got.Links[16], got.Links[17], "a bundle")
	require.Equal(t, 18, got.Links[18].B, "aggregation switch 0 is connected to core switches 0 and 2")
}

func TestReadHtsimRefuses(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(htsimLeafSpine, from, to, 1) }
	for in, want := range map[string]string{
		"":                                     "Tiers must be 2 or 3",
		change("Tiers 2", "Tiers 1"):           "Tiers must be 2 or 3",
		change("Nodes 32", "Nodes x"):          `line 2: Nodes "x": want a number`,
		change("Nodes 32", "Nodes 33"):         "Podsize must divide Nodes",
		change("Podsize 32", "Podsize 16"):     "be the same with two tiers",
		change("Tier 0", "Colour 3"):           "Colour stands before the first Tier",
		change("Tier 1", "Tier 3"):             "tiers are 0 to 2",
		change("Radix_Down 8", "Radix 8"):      `unknown keyword "Radix"`,
		change("Radix_Up 2", "Radix_Up"):       "want a keyword and a number",
		change("Radix_Down 8", "Radix_Down 7"): "must divide Podsize",
		change("Radix_Down 4", "Radix_Down 5"): "with 4 below each and Bundle 1 it must be 4",
		change("Radix_Up 2", "Radix_Up 4"):     "that is not Oversubscribed 4",
		change("Radix_Up 2", "Radix_Up 0"):     "tier 0: Downlink_speed_Gbps",
		change("ns 0", "ns 3"):                 "must be even",
		change("Tier 1", "Tier 1\nBundle 3"):   "Bundle 3 must divide it",
	} {
		_, err := ReadHtsim(strings.NewReader(in))
		require.ErrorContains(t, err, want, "%q", in)
		require.NotContains(t, err.Error(), "\n")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("3 1 2\n0\n0 1 40Gbps 0.0001ms\n0 2 40Gbps 0.0001ms 0.25\n")
	f.Add(htsimLeafSpine)
	f.Add("262144 1 2097152\n5\n")
	f.Fuzz(func(t *testing.T, in string) {
		for _, read := range []func(string) (*Graph, error){
			func(s string) (*Graph, error) { return ReadNS3(strings.NewReader(s)) },
			func(s string) (*Graph, error) { return ReadHtsim(strings.NewReader(s)) },
		} {
			if g, err := read(in); err == nil {
				require.NoError(t, g.Validate())
			}
		}
	})
}
