// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// A plan is what to measure, and where to write it.
type plan struct {
	drops          list[float64]
	sizes          list[units.Bytes]
	only           *regexp.Regexp
	reps           int // 0: each row's own
	warmups        int // of ours
	limit          time.Duration
	seed           uint64
	quick, install bool
	nice           bool
	within         time.Duration
	slower         int
	json, markdown string
	verbose        bool
}

// The emulated link, with -slower 1.
const (
	fullRate   = units.Gbit               // of IP packets
	shortDelay = 12500 * time.Microsecond // one way
	linkMTU    = 4200
	// linkQueue is one product of rate and round trip.
	linkQueue = 3125000
)

// A row is one line of the tables.
type row struct {
	name, transport string
	cold            bool
	found           bool // the rate is found, not configured
	reps            int
	many            bool // an average of many transfers, measured before the others
	ours            bool
	// goal is set in the row that the goals are for.
	goal bool
}

func rows() []row {
	return []row{
		{name: "sdr adaptive", transport: "adaptive", reps: 10, many: true, ours: true, goal: true},
		{name: "sdr adaptive, cold", transport: "adaptive", cold: true, reps: 10, many: true, ours: true},
		{name: "sdr adaptive, rate found", transport: "adaptive", found: true, reps: 10, many: true, ours: true},
		{name: "sdr adaptive, rate found, cold", transport: "adaptive", cold: true, found: true, reps: 10, many: true, ours: true},
		{name: "sdr sr-nack", transport: "sr-nack", reps: 3, ours: true},
		{name: "TCP bbr", transport: "bbr", reps: 10, many: true},
		{name: "TCP bbr, cold", transport: "bbr", cold: true, reps: 10, many: true},
		{name: "TCP cubic", transport: "cubic", reps: 3},
		{name: "TCP cubic, cold", transport: "cubic", cold: true, reps: 3},
		{name: "quic-go, cold", transport: "quic", cold: true, reps: 3},
		{name: "SRT file mode, cold", transport: "srt", cold: true, reps: 3},
	}
}

// Warm-ups: sdr's as the figures of its simulations, 1e5 packets in all; the
// others know all they will after some times the product of rate and delay.
const (
	warmupSize   = 8 * units.MiB
	ourWarmups   = 50
	theirWarmups = 4
)

func (r *row) warmups(p *plan) int {
	if r.ours {
		return p.warmups
	}
	return min(theirWarmups, p.warmups)
}

// goals for the average of the row that has them, by size.
var goals = map[units.Bytes]float64{8 * units.MiB: 1.08, 128 * units.MiB: 1.05}

func (p *plan) rate() units.Rate { return fullRate / units.Rate(p.slower) }

func (p *plan) delay() time.Duration { return shortDelay * time.Duration(p.slower) }

// ideal is user data alone at the link's rate, and one round trip.
func (p *plan) ideal(size units.Bytes) time.Duration {
	return time.Duration(p.rate().Time(size)) + 2*p.delay()
}

const help = `peers measures how long transfers take over an emulated link of 1 Gbit/s and 25 ms
round trip that loses packets, by sdr and by TCP, QUIC and SRT, as a multiple of
the ideal: user data / rate + round trip. Needs root for network namespaces.

  cd test/peers && go run . [flags]

`

func parse(args []string) (*plan, error) {
	p := &plan{drops: list[float64]{0, 1e-4, 1e-3, 1e-2}, sizes: list[units.Bytes]{8 * units.MiB, 128 * units.MiB}}
	p.warmups = ourWarmups
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), help)
		f.PrintDefaults()
	}
	f.Func("drop", "drop rates per packet, both ways, 0 to 0.5 (default 0,1e-4,1e-3,1e-2)", p.drops.set(parseDrop))
	f.Func("size", "transfer sizes, multiples of 8 bytes from 4 KiB to 1 GiB (default 8MiB,128MiB)", p.sizes.set(parseSize))
	f.Func("only", "only rows whose name matches this `regexp`", func(s string) (err error) {
		p.only, err = regexp.Compile(s)
		return err
	})
	f.IntVar(&p.reps, "reps", 0, "transfers of each row, 1 to 1000 (default 10 of sdr adaptive and bbr, 3 of others)")
	f.DurationVar(&p.limit, "limit", 30*time.Second, "stop a transfer after this time, and its row with it; 1s to 10m; after -within, a third")
	f.Uint64Var(&p.seed, "seed", 1, "of losses and content")
	f.BoolVar(&p.quick, "quick", false, "a small run: 8 MiB at 1e-3, 2 transfers, short warm-up, no goals")
	f.BoolVar(&p.install, "install", false, "install what SRT needs with apt-get, if it is missing")
	f.BoolVar(&p.nice, "nice", false, "prefer both ends of all rows to other load on the machine (nice -20); the link always is")
	f.DurationVar(&p.within, "within", 17*time.Minute, "make fewer transfers where the run would take longer than this; 1m to 24h")
	f.IntVar(&p.slower, "slower", 1, "divide the rate and multiply the delay of the link by this, 1 to 100: figures\nof the same protocols that other load on the machine disturbs less; no goals")
	f.StringVar(&p.json, "json", "", "write the results to this `file`, too")
	f.StringVar(&p.markdown, "markdown", "", "write the tables to this `file`, too")
	f.BoolVar(&p.verbose, "v", false, "print each transfer's time and what the transport tells")
	f.SetOutput(os.Stdout)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return p, p.check(f)
}

func (p *plan) check(f *flag.FlagSet) error {
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("what is %q? See --help", f.Arg(0))
	case given["reps"] && (p.reps < 1 || p.reps > 1000):
		return fmt.Errorf("-reps %d: choose 1 to 1000", p.reps)
	case p.within < time.Minute || p.within > 24*time.Hour:
		return fmt.Errorf("-within %v: choose 1m to 24h", p.within)
	case p.slower < 1 || p.slower > 100:
		return fmt.Errorf("-slower %d: choose 1 to 100", p.slower)
	case p.limit < time.Second || p.limit > 10*time.Minute:
		return fmt.Errorf("-limit %v: choose 1s to 10m", p.limit)
	}
	if p.quick {
		p.warmups = 5
		for name, set := range map[string]func(){
			"drop": func() { p.drops = list[float64]{1e-3} },
			"size": func() { p.sizes = list[units.Bytes]{8 * units.MiB} },
			"reps": func() { p.reps = 2 },
		} {
			if !given[name] {
				set()
			}
		}
	}
	if len(p.chosen()) == 0 {
		var names []string
		for _, r := range rows() {
			names = append(names, r.name)
		}
		return fmt.Errorf("-only matches no row; there are: %s", strings.Join(names, "; "))
	}
	return nil
}

// chosen are the rows to measure.
func (p *plan) chosen() (all []row) {
	for _, r := range rows() {
		if p.only != nil && !p.only.MatchString(r.name) {
			continue
		}
		if p.reps > 0 {
			r.reps = p.reps
		}
		all = append(all, r)
	}
	return all
}

// A list is a flag of values with commas between them.
type list[T any] []T

func (l *list[T]) set(one func(string) (T, error)) func(string) error {
	return func(text string) error {
		*l = nil
		for s := range strings.SplitSeq(text, ",") {
			v, err := one(s)
			if err != nil {
				return err
			}
			*l = append(*l, v)
		}
		return nil
	}
}

func parseDrop(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err == nil && !(p >= 0 && p <= 0.5) {
		err = fmt.Errorf("%v: choose 0 to 0.5", p)
	}
	return p, err
}

func parseSize(s string) (units.Bytes, error) {
	n, err := units.ParseBytes(s)
	if err == nil && (n < 4*units.KiB || n > units.GiB || n%8 != 0) {
		err = fmt.Errorf("%v: choose a multiple of 8 bytes from 4 KiB to 1 GiB", n)
	}
	return n, err
}
