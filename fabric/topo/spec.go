// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Help describes what Parse takes, a line each.
const Help = `star:N[,RATE][,DELAY]                      N hosts at one switch
leafspine:LxHxS[,RATE][,DELAY][,OPTION...] L leaves of H hosts each, S spines
     up=RATE          of links to spines
     updelay=DELAY    of links to spines
     oversub=4        a quarter of the spines, so that leaves have 4 times less up than down
     fail=16x4        4 links up of each of 16 leaves are down
     slow=1x4         the links of 1 spine have a quarter of the rate
     rails=4          hosts have 4 NICs, one at each of 4 leaves in a row, which share H hosts
fattree:K[,RATE][,DELAY]                   three tiers of switches with K ports, K*K*K/4 hosts
dc2[:DELAY]                                two data centres of 16 hosts, DELAY apart (THEMIS, figure 1)
RATE is 400gbit or 400G, and 100gbit where not given; DELAY is 1us, and of dc2 500us, where not given`

// Parse builds the network that a specification such as "leafspine:128x64x64,400G,1us,oversub=4"
// describes. Errors are one line and name what to write instead.
func Parse(spec string) (*Graph, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	shape, options, _ := strings.Cut(rest, ",")
	p := parser{down: Wire{100 * units.Gbit, units.Microsecond}}
	var g *Graph
	var err error
	switch kind {
	case "star", "fattree":
		n := p.shape(kind, shape, 1)
		if err := p.options(kind, options, false); err != nil {
			return nil, err
		}
		if kind == "star" {
			g, err = Star(n[0], p.down)
		} else {
			g, err = FatTree(n[0], p.down)
		}
	case "leafspine":
		n := p.shape(kind, shape, 3)
		if err := p.options(kind, options, true); err != nil {
			return nil, err
		}
		g, err = p.leafSpine(n)
	case "dc2":
		g, err = parseDC2(rest)
	default:
		return nil, operr.New("parse", fmt.Sprintf("topology %q", spec), "unknown kind %q: choose star, leafspine, fattree or dc2, or name a file that there is", kind)
	}
	if err != nil {
		return nil, operr.New("parse", fmt.Sprintf("topology %q", spec), "%w", err)
	}
	return g, nil
}

func parseDC2(rest string) (*Graph, error) {
	distance := 500 * units.Microsecond
	if rest != "" {
		if err := (*units.DurationValue)(&distance).Set(rest); err != nil {
			return nil, err
		}
	}
	return DC2(distance)
}

// A parser collects what a specification says. The first error stays.
type parser struct {
	down, up   Wire
	upRate     bool // up.Rate was given
	upDelay    bool
	oversub    int
	rails      int
	failLeaves int
	failLinks  int
	slowSpines int
	slowBy     int
	err        error
}

// shape reads n numbers with an x between them.
func (p *parser) shape(kind, s string, n int) []int {
	out, ok := numbers(s, n)
	if !ok {
		example := map[string]string{"star": "star:16", "fattree": "fattree:8", "leafspine": "leafspine:16x8x8"}[kind]
		p.err = operr.New("parse", "topology "+kind, "%q is no size: write it like %s", s, example)
	}
	return out
}

func numbers(s string, n int) ([]int, bool) {
	parts := strings.Split(s, "x")
	out := make([]int, n)
	if len(parts) != n {
		return out, false
	}
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 {
			return out, false
		}
		out[i] = v
	}
	return out, true
}

// options reads rates, delays and, for a leaf–spine network, what has a name.
func (p *parser) options(kind, s string, named bool) error {
	seen := map[string]bool{}
	for _, part := range strings.Split(s, ",") {
		if s == "" || p.err != nil {
			break
		}
		name, value, found := strings.Cut(part, "=")
		var err error
		switch {
		case found && named:
			err = p.named(name, value)
		case found:
			err = fmt.Errorf("unknown option %q: it takes a rate and a delay", name)
		default:
			name, err = p.bare(part)
		}
		if err == nil && seen[name] {
			err = fmt.Errorf("%s is given twice", name)
		}
		if err != nil {
			p.err = operr.New("parse", "topology "+kind, "%w", err)
		}
		seen[name] = true
	}
	return p.err
}

// bare reads a rate or a delay, whichever it is.
func (p *parser) bare(s string) (name string, err error) {
	if rate, err := ParseRate(s); err == nil {
		p.down.Rate = rate
		return "the rate", nil
	}
	if err := (*units.DurationValue)(&p.down.Delay).Set(s); err != nil {
		return "", fmt.Errorf("%q is neither a rate such as 400G nor a delay such as 1us", s)
	}
	return "the delay", nil
}

func (p *parser) named(name, value string) error {
	var err error
	ok := true
	switch name {
	case "up":
		p.upRate = true
		p.up.Rate, err = ParseRate(value)
	case "updelay":
		p.upDelay = true
		err = (*units.DurationValue)(&p.up.Delay).Set(value)
	case "oversub":
		p.oversub, err = strconv.Atoi(value)
		ok = err == nil && p.oversub >= 1
		err = nil
	case "fail":
		var n []int
		if n, ok = numbers(value, 2); ok {
			p.failLeaves, p.failLinks = n[0], n[1]
		}
	case "slow":
		var n []int
		if n, ok = numbers(value, 2); ok {
			p.slowSpines, p.slowBy = n[0], n[1]
		}
	case "rails":
		p.rails, err = strconv.Atoi(value)
		ok = err == nil && p.rails >= 1
		err = nil
	default:
		return fmt.Errorf("unknown option %q: choose up=, updelay=, oversub=, rails=, slow= or fail=", name)
	}
	if !ok {
		return fmt.Errorf("%s=%s: write it like oversub=4 or rails=4 (whole numbers) fail=16x4 (leaves x links) or slow=1x4 (spines x how much slower)", name, value)
	}
	return err
}

// ParseRate reads a rate as units.ParseRate does, and a bare G or T for giga- and terabit.
func ParseRate(s string) (units.Rate, error) {
	if n := len(s); n > 1 && strings.ContainsRune("gGtT", rune(s[n-1])) && s[n-2] >= '0' && s[n-2] <= '9' {
		s += "bit"
	}
	return units.ParseRate(s)
}

func (p *parser) leafSpine(n []int) (*Graph, error) {
	c := Clos{
		Leaves: n[0], Hosts: n[1], Spines: n[2], Down: p.down, Up: p.down,
		Rails: p.rails, FailLeaves: p.failLeaves, FailLinks: p.failLinks,
		SlowSpines: p.slowSpines, SlowBy: p.slowBy,
	}
	if p.upRate {
		c.Up.Rate = p.up.Rate
	}
	if p.upDelay {
		c.Up.Delay = p.up.Delay
	}
	if p.oversub > 1 {
		if c.Spines%p.oversub != 0 {
			return nil, operr.New("build", "leafspine", "oversub=%d doesn't divide %d spines: choose a divisor, or give fewer spines instead", p.oversub, c.Spines)
		}
		c.Spines /= p.oversub
	}
	return LeafSpine(c)
}
