// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// ReadHtsim reads a .topo file of htsim: Nodes, Tiers (2 or 3) and Podsize, then for each Tier its
// Downlink_speed_Gbps, Radix_Down, Radix_Up, Downlink_Latency_ns, Switch_Latency_ns, Oversubscribed and
// Bundle, a keyword and a number a line. A switch's latency is put on its links, half on each, and so
// must be even. Queue_Up and Queue_Down are not read: buffers are package fabric's.
func ReadHtsim(r io.Reader) (*Graph, error) {
	in := &lines{s: bufio.NewScanner(r)}
	h := htsimFile{}
	for {
		f, err := in.fields()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = h.line(f)
		}
		if err != nil {
			return nil, operr.New("read", fmt.Sprintf("topology file, line %d", in.n), "%w", err)
		}
	}
	g, err := h.build()
	if err != nil {
		return nil, operr.New("read", "topology file", "%w", err)
	}
	return g, g.Validate()
}

type htsimFile struct {
	nodes, tiers, podsize int
	tier                  [3]htsimTier
	current               *htsimTier
}

type htsimTier struct {
	gbps, radixUp, radixDown, oversubscribed, bundle int
	latency, switchLatency                           int // ns
}

func (h *htsimFile) line(f []string) error {
	if len(f) != 2 {
		return fmt.Errorf("want a keyword and a number: found %q", strings.Join(f, " "))
	}
	v, err := strconv.Atoi(f[1])
	if err != nil || v < 0 || v > 1e9 {
		return fmt.Errorf("%s %q: want a number from 0 to 1000000000", f[0], f[1])
	}
	switch strings.ToLower(f[0]) {
	case "nodes":
		h.nodes = v
		return nil
	case "tiers":
		h.tiers = v
		return nil
	case "podsize":
		h.podsize = v
		return nil
	case "tier":
		if v >= len(h.tier) {
			return fmt.Errorf("tier %d: tiers are 0 to 2", v)
		}
		h.current = &h.tier[v]
		h.current.bundle = 1
		return nil
	}
	if h.current == nil {
		return fmt.Errorf("%s stands before the first Tier", f[0])
	}
	return h.current.set(f[0], v)
}

func (t *htsimTier) set(key string, v int) error {
	switch strings.ToLower(key) {
	case "downlink_speed_gbps":
		t.gbps = v
	case "radix_up":
		t.radixUp = v
	case "radix_down":
		t.radixDown = v
	case "downlink_latency_ns":
		t.latency = v
	case "switch_latency_ns":
		if v%2 != 0 {
			return fmt.Errorf("%s %d: must be even", key, v)
		}
		t.switchLatency = v
	case "oversubscribed":
		t.oversubscribed = v
	case "bundle":
		t.bundle = v
	case "queue_up", "queue_down":
	default:
		return fmt.Errorf("unknown keyword %q", key)
	}
	return nil
}

// build wires the tiers: switch i of a pod's upper tier has Bundle links to each of the pod's lower
// tier; aggregation switch i of each pod has Bundle links to the core switches i, i+A, i+2A, …, for A
// aggregation switches a pod.
func (h *htsimFile) build() (*Graph, error) {
	s, err := h.shape()
	if err != nil {
		return nil, err
	}
	g := &Graph{}
	t := &h.tier
	hosts := g.add(Host, 0, "h", h.nodes)
	tors := g.add(Switch, 1, "tor", s.pods*s.tors)
	aggs := g.add(Switch, 2, "agg", s.pods*s.aggs)
	for i := range h.nodes {
		g.link(hosts+i, tors+i/t[0].radixDown, t[0].rate(), t[0].wire(nil))
	}
	for tor := range s.pods * s.tors {
		for a := range s.aggs {
			for range t[1].bundle {
				g.link(tors+tor, aggs+tor/s.tors*s.aggs+a, t[1].rate(), t[1].wire(&t[0]))
			}
		}
	}
	if h.tiers == 2 {
		return g, nil
	}
	cores := g.add(Switch, 3, "core", s.cores)
	for agg := range s.pods * s.aggs {
		for c := agg % s.aggs; c < s.cores; c += s.aggs {
			for range t[2].bundle {
				g.link(aggs+agg, cores+c, t[2].rate(), t[2].wire(&t[1]))
			}
		}
	}
	return g, nil
}

func (t *htsimTier) rate() units.Rate { return units.Rate(t.gbps) * units.Gbit }

// wire is the delay of a link down from this tier to one below, or to hosts.
func (t *htsimTier) wire(below *htsimTier) units.Duration {
	ns := t.latency + t.switchLatency/2
	if below != nil {
		ns += below.switchLatency / 2
	}
	return units.Duration(ns)
}

// htsimShape says how many there are: of pods, and of switches a pod.
type htsimShape struct{ pods, tors, aggs, cores int }

func (h *htsimFile) shape() (s htsimShape, err error) {
	t := &h.tier
	if h.tiers != 2 && h.tiers != 3 {
		return s, fmt.Errorf("%d tiers: Tiers must be 2 or 3", h.tiers)
	}
	for i := range h.tiers {
		if t[i].gbps == 0 || t[i].radixDown == 0 || t[i].bundle == 0 || i < h.tiers-1 && t[i].radixUp == 0 {
			return s, fmt.Errorf("tier %d: Downlink_speed_Gbps, Radix_Down, Bundle and, below the top, Radix_Up must be given and above 0", i)
		}
	}
	if h.podsize == 0 && h.tiers == 2 {
		h.podsize = h.nodes
	}
	switch {
	case h.nodes < 1 || h.nodes > MaxNodes:
		return s, fmt.Errorf("%d nodes: Nodes must be within 1 and %d", h.nodes, MaxNodes)
	case t[0].bundle != 1:
		return s, fmt.Errorf("tier 0 has Bundle %d: hosts have one link", t[0].bundle)
	case h.podsize < 1 || h.nodes%h.podsize != 0 || h.tiers == 2 && h.podsize != h.nodes:
		return s, fmt.Errorf("pods of %d for %d nodes: Podsize must divide Nodes, and be the same with two tiers", h.podsize, h.nodes)
	case h.podsize%t[0].radixDown != 0:
		return s, fmt.Errorf("switches with %d ports down for pods of %d: tier 0's Radix_Down must divide Podsize", t[0].radixDown, h.podsize)
	}
	s.pods, s.tors = h.nodes/h.podsize, h.podsize/t[0].radixDown
	s.aggs = t[0].radixUp / t[1].bundle
	if err := h.fits(1, s.tors); err != nil {
		return s, err
	}
	links := h.nodes + s.pods*s.tors*t[0].radixUp
	if h.tiers == 3 {
		if err := h.fits(2, s.pods); err != nil {
			return s, err
		}
		s.cores = s.aggs * (t[1].radixUp / t[2].bundle)
		links += s.pods * s.aggs * t[1].radixUp
	}
	for i := range h.tiers - 1 {
		down, up := t[i].radixDown*t[i].gbps, t[i].radixUp*t[i+1].gbps
		if o := t[i].oversubscribed; o != 0 && down != up*o {
			return s, fmt.Errorf("tier %d has %d Gbit/s down and %d up: that is not Oversubscribed %d", i, down, up, o)
		}
	}
	return s, sized("htsim", h.nodes+s.pods*(s.tors+s.aggs)+s.cores, links)
}

// fits checks the ports between a tier and the one below it: a switch of the upper tier has a bundle to
// each of so many below.
func (h *htsimFile) fits(tier, below int) error {
	up, t := h.tier[tier-1].radixUp, h.tier[tier]
	if up%t.bundle != 0 {
		return fmt.Errorf("tier %d has Radix_Up %d: tier %d's Bundle %d must divide it", tier-1, up, tier, t.bundle)
	}
	if want := below * t.bundle; t.radixDown != want {
		return fmt.Errorf("tier %d has Radix_Down %d: with %d below each and Bundle %d it must be %d", tier, t.radixDown, below, t.bundle, want)
	}
	return nil
}
