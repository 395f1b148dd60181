// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A plan is what to measure, and where to write it.
type plan struct {
	rate           units.Rate
	mtu            uint
	congestion     string
	scheme         string
	only           *regexp.Regexp
	seed           uint64
	list           bool
	realTime       bool
	json, markdown string
}

const help = `neighbours runs flows of sdr beside each other and beside TCP through one emulated link
between two hosts in network namespaces: small, deep and marking queues, several flows,
changes of rate and route. It prints what each flow got and which bars are met.

  cd test/peers && go run ./neighbours [flags]
  unshare --user --map-root-user --net go run ./neighbours [flags]    without root

`

func parse(args []string) (*plan, error) {
	p := &plan{rate: 200 * units.Mbit, mtu: 1500}
	f := flag.NewFlagSet("neighbours", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), help)
		f.PrintDefaults()
	}
	f.Var(&p.rate, "rate", "of the link, of IP packets, 20mbit to 2gbit")
	f.UintVar(&p.mtu, "mtu", p.mtu, "of the link, 1280 to 4200 `bytes`; packets of sdr carry the power of two that fits, 1 KiB with 1500")
	f.StringVar(&p.congestion, "congestion", "auto", "sdr's congestion `control`, one that sdr-perf takes, such as auto, bbr, search or dcqcn")
	f.StringVar(&p.scheme, "scheme", "adaptive", "sdr's reliability scheme: adaptive or sr-nack")
	f.Func("only", "only scenes whose part and name match this `regexp`, as -list shows them", func(s string) (err error) {
		p.only, err = regexp.Compile(s)
		return err
	})
	f.Uint64Var(&p.seed, "seed", 1, "of losses and marks")
	f.BoolVar(&p.realTime, "real-time", false, "prefer both ends to other load on the machine, by real-time priority; the link always is (of each second the kernel keeps\n50 ms for others, sysctl kernel.sched_rt_runtime_us: flows stand still then)")
	f.BoolVar(&p.list, "list", false, "list the scenes and how long they take, and do nothing")
	f.StringVar(&p.json, "json", "", "write the results to this `file`, too")
	f.StringVar(&p.markdown, "markdown", "", "write the tables to this `file`, too")
	f.SetOutput(os.Stdout)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return p, p.check(f)
}

func (p *plan) check(f *flag.FlagSet) error {
	cc, err := congestion.Parse(p.congestion)
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("what is %q? See --help", f.Arg(0))
	case p.rate < 20*units.Mbit || p.rate > 2*units.Gbit:
		return fmt.Errorf("-rate %v: choose 20mbit to 2gbit", p.rate)
	case p.mtu < leastMTU || p.mtu > mostMTU:
		return fmt.Errorf("-mtu %d: choose %d to %d", p.mtu, leastMTU, mostMTU)
	case err != nil:
		return fmt.Errorf("-congestion: %w", err)
	case cc.CheckDevice(p.rate) != nil:
		return fmt.Errorf("-congestion %s: %w", p.congestion, cc.CheckDevice(p.rate))
	case p.scheme != "adaptive" && p.scheme != "sr-nack":
		return fmt.Errorf("-scheme %s: choose adaptive or sr-nack", p.scheme)
	case len(p.chosen()) == 0:
		return fmt.Errorf("-only matches no scene; -list shows them")
	}
	return nil
}

// chosen are the scenes to run.
func (p *plan) chosen() (all []*scene) {
	for _, s := range p.scenes() {
		if p.only == nil || p.only.MatchString(s.part+": "+s.name) {
			all = append(all, s)
		}
	}
	return all
}

// payload is the most that a packet of sdr carries.
func (p *plan) payload() units.Bytes {
	m, _ := roce.LargestMTU(units.Bytes(p.mtu), false) // leastMTU has room for one
	return m.Bytes()
}

// longest is how long the scenes take without what it takes to set them up.
func longest(all []*scene) (d time.Duration) {
	for _, s := range all {
		d += s.length
	}
	return d
}
