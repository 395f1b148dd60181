// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// options are what both ends can be told.
type options struct {
	scheme  string
	addr    netip.Addr
	udpPort string
	port    uint16 // udpPort, parsed
	silence units.Duration
	link    linkemu.Config
}

// schemes are those that lose nothing.
var schemes = map[string]func() (scheme.Scheme, error){
	"adaptive": func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) },
	"ec-mds":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) },
	"sr":       func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.RTO}) },
	"sr-nack":  func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
}

func schemeNames() string { return strings.Join(slices.Sorted(maps.Keys(schemes)), ", ") }

func (o *options) register(f *pflag.FlagSet) {
	f.SortFlags = false
	o.silence = 30 * units.Second
	f.StringVar(&o.scheme, "scheme", "adaptive", "reliability `scheme`, the same at both ends: "+schemeNames())
	f.TextVar(&o.addr, "addr", netip.Addr{}, "local `IP` for RDMA packets (default: where the TCP connection ends)")
	f.StringVar(&o.udpPort, "udp-port", "4791", "local UDP `PORT` for RDMA packets, or any")
	f.Var((*units.DurationValue)(&o.silence), "silence", "give up when the peer is silent, or nothing arrives, for so long")
	f.Var((*units.DurationValue)(&o.link.RTT), "rtt", "emulated link: round-trip time, such as 25ms")
	f.Var(&o.link.Rate, "rate", "emulated link: rate, such as 1gbit; sending is paced to it")
	f.Float64Var(&o.link.Drop, "drop", 0, "emulated link: `probability` that a packet is lost, such as 1e-3")
	f.Float64Var(&o.link.Reorder, "reorder", 0, "emulated link: `probability` that a packet is overtaken by later ones")
	f.Float64Var(&o.link.Duplicate, "duplicate", 0, "emulated link: `probability` that a packet arrives twice")
	f.Uint64Var(&o.link.Seed, "seed", 1, "`number` that the emulated link's faults depend on")
	for _, name := range []string{"rtt", "rate"} {
		f.Lookup(name).DefValue = "" // not "0 ns": the help needn't say it
	}
}

// check completes the options; what is wrong with them is a usageError.
func (o *options) check() error {
	if schemes[o.scheme] == nil {
		return usageError{fmt.Errorf("unknown scheme %q: choose one of %s", o.scheme, schemeNames())}
	}
	if o.silence < 100*units.Millisecond {
		return usageError{fmt.Errorf("--silence %v: choose at least 100 ms", units.FormatDuration(o.silence))}
	}
	if err := o.link.Validate(); err != nil {
		return usageError{err}
	}
	switch port, err := strconv.ParseUint(o.udpPort, 10, 16); {
	case o.udpPort == "any":
		o.port = userroce.AnyPort
	case err != nil || port == 0 || uint16(port) == userroce.AnyPort:
		return usageError{fmt.Errorf("--udp-port %q: give a number from 1 to %d, or any", o.udpPort, userroce.AnyPort-1)}
	default:
		o.port = uint16(port)
	}
	return nil
}

// emulated says whether any flag asks for something else than the real link.
func (o *options) emulated() bool {
	real := linkemu.Config{Seed: o.link.Seed}
	return o.link.RTT != real.RTT || o.link.Rate != real.Rate || o.link.Drop != 0 || o.link.Reorder != 0 || o.link.Duplicate != 0
}
