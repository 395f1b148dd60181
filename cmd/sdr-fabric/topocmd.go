// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A network is what topo tells of one.
type network struct {
	Topo     string      `json:"topo"`
	Hosts    int         `json:"hosts"`
	Switches int         `json:"switches"`
	Links    []linkKind  `json:"links"`
	Paths    []pathKind  `json:"paths"` // from the first host
	ECN      []ecnAdvice `json:"ecn"`
}

// A linkKind is all links of one rate and delay.
type linkKind struct {
	Rate  units.Rate     `json:"rate_bps"`
	Delay units.Duration `json:"delay_ns"`
	Count int            `json:"count"`
	Down  int            `json:"down"`
	// Headroom is what an ingress at such a link, between switches, needs so that nothing is dropped after a pause.
	Headroom units.Bytes `json:"headroom_bytes"`
}

// A pathKind is all hosts that are equally far.
type pathKind struct {
	RTT   units.Duration `json:"rtt_ns"` // of a full packet and its acknowledgement
	BDP   units.Bytes    `json:"bdp_bytes"`
	Hosts int            `json:"hosts"`
}

// ecnAdvice is where a port of a rate may mark for DCQCN: from 100 kB to 400 kB at 25 Gbit/s, in
// proportion to the rate, as HPCC's evaluation (SIGCOMM 2019, section 5.1) has it.
type ecnAdvice struct {
	Rate units.Rate  `json:"rate_bps"`
	KMin units.Bytes `json:"kmin_bytes"`
	KMax units.Bytes `json:"kmax_bytes"`
}

func newTopo() *cobra.Command {
	s := defaultScenario()
	var jsonPath string
	cmd := &cobra.Command{
		Use:   "topo",
		Short: "Print what a network is like: links, round trips, headroom",
		Long: `topo checks a network and prints its links with the headroom that PFC needs
there, and the round trips from its first host with the bandwidth-delay products
that follow.

    sdr-fabric topo --topo leafspine:128x64x64,400G,1us,oversub=4,fail=16x4
    sdr-fabric topo --topo topology.txt

Values of flags:

` + networkValues(),
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := result.CheckWritable(jsonPath); err != nil {
				return usage.Wrap(err)
			}
			built := newMeter(cmd.ErrOrStderr(), "topo", 1).builds(s.Topo)
			n, err := usage.Interruptible(cmd.Context(), func() (*network, error) { return describe(&s) })
			built()
			if err != nil {
				return err
			}
			if jsonPath != "-" {
				n.print(cmd.OutOrStdout())
			}
			if jsonPath == "" {
				return nil
			}
			return result.Write(cmd.OutOrStdout(), jsonPath, n)
		},
	}
	s.registerNetwork(cmd.Flags())
	cmd.Flags().StringVar(&jsonPath, "json", "", "file for the same as JSON; - for standard output, instead of the table")
	return cmd
}

func describe(s *scenario) (*network, error) {
	g, err := s.graph()
	if err != nil {
		return nil, err
	}
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	sim, err := fabric.New(g, c)
	if err != nil {
		return nil, usage.Wrap(err)
	}
	hosts := g.Hosts()
	n := &network{Topo: s.Topo, Hosts: len(hosts), Switches: len(g.Nodes) - len(hosts)}
	n.countLinks(g, s)

	// A message of one full packet to each host takes the round trip.
	var flows []workload.Flow
	for _, h := range hosts[1:] {
		flows = append(flows, workload.Flow{Src: hosts[0], Dst: h, Size: s.MTU})
	}
	if err := sim.AddFlows(flows); err != nil {
		return nil, usage.Wrap(err)
	}
	count := map[units.Duration]int{}
	for i := range flows {
		count[duration(sim.Standalone(i))]++
	}
	rate := linkOf(g, hosts[0]).Rate
	for _, rtt := range slices.Sorted(maps.Keys(count)) {
		n.Paths = append(n.Paths, pathKind{rtt, rate.Bytes(rtt), count[rtt]})
	}
	return n, nil
}

func (n *network) countLinks(g *topo.Graph, s *scenario) {
	type kind struct {
		rate  units.Rate
		delay units.Duration
	}
	count, down := map[kind]int{}, map[kind]int{}
	rates := map[units.Rate]bool{}
	for _, l := range g.Links {
		k := kind{l.Rate, l.Delay}
		count[k]++
		if rates[l.Rate] = true; l.Down {
			down[k]++
		}
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b kind) int {
		if a.rate != b.rate {
			return int(a.rate - b.rate)
		}
		return int(a.delay - b.delay)
	})
	for _, k := range kinds {
		headroom := fabric.Headroom(k.rate, k.delay+s.SwitchLatency, s.MTU+s.Header, s.PauseSize)
		n.Links = append(n.Links, linkKind{k.rate, k.delay, count[k], down[k], headroom})
	}
	for _, r := range slices.Sorted(maps.Keys(rates)) {
		kmin := 100 * units.KB * units.Bytes(r/units.Mbit) / units.Bytes(25*units.Gbit/units.Mbit)
		n.ECN = append(n.ECN, ecnAdvice{r, kmin, 4 * kmin})
	}
}

func (n *network) print(w io.Writer) {
	usage.Fillf(w, "%s: %d hosts, %d switches", n.Topo, n.Hosts, n.Switches)
	fmt.Fprintln(w)
	fmt.Fprintf(w, "%8s %14s %12s %8s %16s\n", "links", "rate", "delay", "down", "PFC headroom")
	for _, l := range n.Links {
		fmt.Fprintf(w, "%8d %14v %12s %8d %16v\n", l.Count, l.Rate, units.FormatDuration(l.Delay), l.Down, l.Headroom)
	}
	fmt.Fprintf(w, "\nOne full packet and its acknowledgement, from the first host:\n%8s %14s %12s\n", "hosts", "round trip", "BDP")
	for _, p := range n.Paths {
		fmt.Fprintf(w, "%8d %14s %12v\n", p.Hosts, units.FormatDuration(p.RTT), p.BDP)
	}
	fmt.Fprintf(w, "\nECN for DCQCN, 100 and 400 kB at 25 Gbit/s, in proportion:\n%14s %12s %12s\n", "rate", "KMIN", "KMAX")
	for _, e := range n.ECN {
		fmt.Fprintf(w, "%14v %12v %12v\n", e.Rate, e.KMin, e.KMax)
	}
}
