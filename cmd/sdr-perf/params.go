// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/units"
)

// params say what is to be measured. They are the client's: it tells the server.
type params struct {
	Sizes    usage.Sizes    `json:"sizes"`
	Schemes  []string       `json:"schemes"`
	Scheme   schemeParams   `json:"scheme"`
	Iters    int            `json:"iters"` // 0: as many as fit into Duration
	Duration units.Duration `json:"duration"`
	// Inflight is how many transfers are under way on each of QPs connections, in each direction.
	Inflight int         `json:"inflight"`
	QPs      int         `json:"qps"`
	Both     bool        `json:"both"`
	Latency  bool        `json:"latency"`
	Warmup   int         `json:"warmup"` // -1: the program decides
	Chunk    units.Bytes `json:"chunk"`  // 0: 16 packets
	MTU      units.Bytes `json:"mtu"`    // 0: the largest that both ends can
	Unit     units.Bytes `json:"unit"`   // 0: one packet
	Channels int         `json:"channels"`
	// Congestion is the congestion control, as congestion.Parse takes it; "" is the default, which is
	// told the link's rate.
	Congestion string         `json:"congestion"`
	Link       link           `json:"link"`
	Seed       uint64         `json:"seed"`
	Timeout    units.Duration `json:"timeout"`
	Verify     bool           `json:"verify"`
}

// link is the emulated link; the zero value emulates none.
type link struct {
	RTT       units.Duration `json:"rtt"`
	Jitter    units.Duration `json:"jitter"`
	Rate      units.Rate     `json:"rate"`
	Paths     paths          `json:"paths,omitempty"`
	Queue     units.Bytes    `json:"queue"`
	MarkAbove units.Bytes    `json:"mark_above"`
	Drop      float64        `json:"drop"`
	Burst     float64        `json:"burst"`
	Reorder   float64        `json:"reorder"`
	Duplicate float64        `json:"duplicate"`
}

// controls are those that --congestion takes: without the ones that no device tells enough.
func controls() []string {
	return slices.DeleteFunc(congestion.Names(), func(name string) bool {
		s, err := congestion.Parse(name) // fixed alone is refused: it wants a limit
		return err == nil && s.CheckDevice(units.Gbit) != nil
	})
}

func defaultParams() params {
	return params{
		Sizes: usage.Sizes{64 * units.MiB}, Schemes: []string{"adaptive"}, Duration: 5 * units.Second, Warmup: autoWarmup,
		Inflight: 1, QPs: 1, Channels: 4, Seed: 1, Timeout: 30 * units.Second, Verify: true,
	}
}

// register adds the flags. What p holds are the defaults.
func (p *params) register(f *pflag.FlagSet) {
	f.VarP(&p.Sizes, "size", "s", "sizes of the transfers, one or a list")
	f.StringSliceVar(&p.Schemes, "reliability", p.Schemes, "reliability schemes, one or a `list`: "+strings.Join(schemes.Names(), ", "))
	f.IntVarP(&p.Iters, "iters", "n", p.Iters, "`number` of transfers to measure for each point (default: as many as fit into --duration)")
	f.VarP(seconds{&p.Duration}, "duration", "D", "how long to measure each point when --iters doesn't say")
	f.IntVarP(&p.Inflight, "inflight", "t", p.Inflight, "`number` of transfers under way on each connection, as perftest's tx-depth")
	f.IntVarP(&p.QPs, "qps", "q", p.QPs, "`number` of connections")
	f.BoolVarP(&p.Both, "bidirectional", "b", false, "send in both directions at once; Gbit/s and msg/s are those of both")
	f.BoolVar(&p.Latency, "latency", false, "play ping-pong: times are of round trips, with a transfer of the size in each direction")
	f.IntVar(&p.Warmup, "warmup", p.Warmup, "`number` of transfers before those that count; -1: 20 transfers and 100000 packets, but at most 1 s")
	f.VarP(&p.MTU, "mtu", "m", "payload of a packet, 256 to 4096 (default: the largest that both ends can)")
	f.Var(&p.Chunk, "chunk", "what one bit of the receiver's bitmap covers, a multiple of the MTU (default: 16 packets)")
	f.Var(&p.Unit, "unit", "what is repeated at once, a multiple of the MTU (default: 1 packet)")
	f.IntVar(&p.Channels, "channels", p.Channels, "`number` of paths that a transfer is spread over, 1 to 256")
	f.StringVar(&p.Congestion, "congestion", p.Congestion, "congestion control, which finds the rate, as that of the emulated link isn't told: "+strings.Join(controls(), ", ")+"; sdr-perf congestion tells which is what (default: sending is paced to --rate)")
	p.Scheme.register(f)
	f.Var((*units.DurationValue)(&p.Link.RTT), "rtt", "emulated link: round-trip time")
	f.Var((*units.DurationValue)(&p.Link.Jitter), "jitter", "emulated link: `time` by up to which each packet takes longer, at random; no packet overtakes another of its channel")
	f.Var(&p.Link.Rate, "rate", "emulated link: rate, headers included; without --congestion sending is paced to it")
	f.Var(&p.Link.Paths, "paths", "emulated link: instead of --rate, the rate of each path that channels take in turn, and when it dies, counted from each point's beginning: 100mbit,100mbit,10mbit,100mbit@2s; sending is paced to their sum")
	f.Var(&p.Link.Queue, "queue", "emulated link: bytes that may wait for it before packets are dropped (default: the sender is held back)")
	f.Var(&p.Link.MarkAbove, "mark-above", "emulated link: bytes that wait for it from which on packets are marked (ECN); give --ecn, too, at both ends")
	f.Var(probability{&p.Link.Drop}, "drop", "emulated link: probability that a packet is lost, data and control alike")
	f.Float64Var(&p.Link.Burst, "burst", p.Link.Burst, "emulated link: mean `length` in packets of bursts of losses; with --rate they last as long as so many packets take")
	f.Var(probability{&p.Link.Reorder}, "reorder", "emulated link: probability that a packet is overtaken by later ones")
	f.Var(probability{&p.Link.Duplicate}, "duplicate", "emulated link: probability that a packet arrives twice")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "`number` that the content and the emulated link's faults depend on")
	f.Var(seconds{&p.Timeout}, "timeout", "give up when the peer is silent, or nothing arrives, for so long")
	f.BoolVar(&p.Verify, "verify", p.Verify, "check every byte of every transfer; of those that overlap (-t, -q, -b) a word of each page, and all of the last ones")
}

// Limits of what a client may ask for.
const (
	autoWarmup  = -1
	maxIters    = 10_000_000
	maxPoints   = 1000
	maxPlan     = 15 << 10       // bytes: the server reads 16 KiB of whom it doesn't know yet
	maxSize     = 64 * units.TiB // beyond every machine's memory, and leaves room for arithmetic
	maxInflight = 256            // a queue pair has 1024 slots for messages, and some are posted ahead
	maxQPs      = 256
	maxDuration = 24 * 3600 * units.Second
	minTimeout  = 100 * units.Millisecond
)

// check says what is out of range, of flags and of what a client asks for. What depends on the
// device is left to package sdr.
func (p *params) check() error {
	switch {
	case len(p.Sizes) == 0 || len(p.Schemes) == 0:
		return fmt.Errorf("--size and --reliability: give at least one each")
	case len(p.Sizes) > maxPoints || len(p.Schemes) > maxPoints || len(p.Sizes)*len(p.Schemes) > maxPoints:
		return fmt.Errorf("%d sizes and %d schemes: at most %d points can be measured in one run", len(p.Sizes), len(p.Schemes), maxPoints)
	case p.Iters < 0 || p.Iters > maxIters:
		return fmt.Errorf("--iters %d: choose 1 to %d, or 0 for as many as fit into --duration", p.Iters, maxIters)
	case p.Duration < units.Millisecond || p.Duration > maxDuration:
		return fmt.Errorf("--duration %v: choose 1 ms to 24 hours", p.Duration)
	case p.Warmup < autoWarmup || p.Warmup > maxIters:
		return fmt.Errorf("--warmup %d: choose 0 to %d, or -1", p.Warmup, maxIters)
	case p.Timeout < minTimeout || p.Timeout > maxDuration:
		return fmt.Errorf("--timeout %v: choose 100 ms to 24 hours", p.Timeout)
	case p.Link.RTT >= p.Timeout: // acknowledgements come too late, and the peer would be taken for dead
		return fmt.Errorf("--rtt %v: choose less than --timeout, %v, or a longer one", p.Link.RTT, p.Timeout)
	case p.Latency && (p.Inflight != 1 || p.QPs != 1 || p.Both):
		return fmt.Errorf("--latency has one transfer under way on one connection: leave out --inflight, --qps and --bidirectional")
	case p.Inflight < 1 || p.Inflight > maxInflight:
		return fmt.Errorf("--inflight %d: choose 1 to %d", p.Inflight, maxInflight)
	case p.QPs < 1 || p.QPs > maxQPs:
		return fmt.Errorf("--qps %d: choose 1 to %d", p.QPs, maxQPs)
	case p.Channels < 1 || p.Channels > maxPaths:
		return fmt.Errorf("--channels %d: choose 1 to %d", p.Channels, maxPaths)
	}
	if err := p.checkPackets(); err != nil {
		return err
	}
	for _, s := range p.Schemes {
		if err := schemes.Known(s); err != nil {
			return err
		}
	}
	if err := p.Scheme.check(); err != nil {
		return err
	}
	if err := p.checkPaths(); err != nil {
		return err
	}
	if p.Congestion != "" {
		s, err := congestion.Parse(p.Congestion)
		if err != nil {
			return fmt.Errorf("--congestion: %w", err)
		}
		if err := s.CheckDevice(p.Link.total()); err != nil {
			return fmt.Errorf("--congestion %s: %w", p.Congestion, err)
		}
	}
	if p.Link.Drop == 1 {
		return errors.New("--drop 1: nothing would arrive: choose less than 1")
	}
	if b, err := json.Marshal(p); err == nil && len(b) > maxPlan {
		return fmt.Errorf("what is to be measured takes %d bytes to tell the server, %d at most: measure fewer sizes in one run", len(b), maxPlan)
	}
	err := p.Link.config(0).Validate()
	if e := new(operr.Error); errors.As(err, &e) {
		named := *e
		named.Op, named.Object = "the emulated link", "" // who typed a flag knows no package
		return &named
	}
	return err
}

func (p *params) checkPackets() error {
	for _, n := range p.Sizes {
		if n < 0 || n > maxSize {
			return fmt.Errorf("--size %d: choose 0 to %v", n, maxSize)
		}
	}
	if p.MTU != 0 && (p.MTU < 256 || p.MTU > 4096 || p.MTU&(p.MTU-1) != 0) {
		return fmt.Errorf("--mtu %d: choose 256, 512, 1024, 2048 or 4096", p.MTU)
	}
	if p.MTU == 0 { // no MTU is smaller than 256, and which it is the devices say
		return p.checkMultiples(256, "which is 4096 unless --mtu or a device says less")
	}
	return p.checkMultiples(p.MTU, strconv.Itoa(int(p.MTU)))
}

// checkMultiples says what is no multiple of an MTU.
func (p *params) checkMultiples(mtu units.Bytes, known string) error {
	for _, x := range []struct {
		flag string
		n    units.Bytes
	}{{"chunk", p.Chunk}, {"unit", p.Unit}} {
		if x.n < 0 || x.n%mtu != 0 {
			return fmt.Errorf("--%s %d: choose a multiple of the MTU, %s", x.flag, int64(x.n), known)
		}
	}
	return nil
}

// emulated says whether a link is emulated at all.
func (l *link) emulated() bool { return *l != link{} }

// config is the link as linkemu at one end wants it. The ends have different seeds, so that the
// directions have different faults.
func (l *link) config(seed uint64) linkemu.Config {
	rates, ends, _ := l.Paths.split() // checkPaths says what is wrong with them
	return linkemu.Config{
		RTT: l.RTT, Jitter: l.Jitter, Rate: l.Rate, ChannelRate: rates, ChannelDownAt: ends, Queue: l.Queue, MarkAbove: l.MarkAbove,
		Drop: l.Drop, Burst: l.Burst, Reorder: l.Reorder, Duplicate: l.Duplicate, Seed: seed,
	}
}

// differences are the options that were given here, by set, and that the peer wants to be otherwise.
func (p *params) differences(set *pflag.FlagSet, theirs *params) error {
	copied := *theirs
	want := pflag.NewFlagSet("", pflag.ContinueOnError)
	copied.register(want)
	var err error
	set.Visit(func(f *pflag.Flag) {
		w := want.Lookup(f.Name)
		if w != nil && w.Value.String() != f.Value.String() && err == nil {
			err = fmt.Errorf("--%s is %v at the server and %v at the client: give it at the client only, or both the same", f.Name, f.Value, printable(w.Value.String()))
		}
	})
	return err
}

// givenHere are the flags that were given here, by set, of what the client says; a server has them only to be held against the client's.
func givenHere(set *pflag.FlagSet) (names []string) {
	p, of := defaultParams(), pflag.NewFlagSet("", pflag.ContinueOnError)
	p.register(of)
	set.Visit(func(f *pflag.Flag) {
		if of.Lookup(f.Name) != nil {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}
