// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// A row is one way to move messages.
type row struct {
	name string
	// kind is what its ends are: "sdr", "stream", "ofi" or "ucx"; argument goes to them.
	kind, argument string
	// over says what the kernel carries, and counts when a message counts at its sender.
	over, counts string
}

const (
	acknowledged = "its receiver's acknowledgement is there"
	delivered    = "it is in its receiver's buffer"
	freed        = "its buffer may be used again"
)

func rows() []row {
	return []row{
		{"sdr sr", "sdr", "sr", "UDP (RoCEv2 with ICRC), 4096 B packets", acknowledged},
		{"sdr adaptive", "sdr", "adaptive", "UDP (RoCEv2 with ICRC), 4096 B packets", acknowledged},
		{"quic-go, one stream", "stream", "quic", "UDP, 1452 B packets, TLS 1.3", "a byte for it has come back"},
		{"TCP, one connection", "stream", "tcp", "TCP", "a byte for it has come back"},
		{"libfabric udp;ofi_rxd", "ofi", "+udp;ofi_rxd", "UDP", delivered},
		{"libfabric tcp;ofi_rxm", "ofi", "+tcp;ofi_rxm", "TCP", delivered},
		{"libfabric tcp;ofi_rxm, buffered", "ofi", "tcp;ofi_rxm", "TCP", freed},
		{"UCX tcp", "ucx", "sync", "TCP", "its receiver has matched it"},
		{"UCX tcp, buffered", "ucx", "plain", "TCP", freed},
	}
}

// packages are the Debian packages that rows of a kind are built from, and a file of each.
var packages = map[string]map[string]string{
	"ofi": {"gcc": "/usr/bin/gcc", "libc6-dev": "/usr/include/stdio.h", "libfabric-dev": "/usr/include/rdma/fabric.h"},
	"ucx": {"gcc": "/usr/bin/gcc", "libc6-dev": "/usr/include/stdio.h", "libucx-dev": "/usr/include/ucp/api/ucp.h"},
}

// A plan is what to measure, and where to write it.
type plan struct {
	sizes          []units.Bytes
	only           *regexp.Regexp
	inflight       int
	rounds         int
	warm, duration time.Duration
	install        bool
	json, markdown string
}

const help = `sizes measures how many messages of each size a second go from one process to another over
loopback, with several under way: by sdr, libfabric, UCX, quic-go and TCP, in the same run.
Nothing needs privilege. libfabric and UCX are Debian's, and small programs of this command's.

  cd test/peers && go run ./sizes [flags]

`

func parse(args []string) (*plan, error) {
	p := &plan{}
	for n := 4 * units.KiB; n <= units.MiB; n *= 4 {
		p.sizes = append(p.sizes, n)
	}
	f := flag.NewFlagSet("sizes", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), help)
		f.PrintDefaults()
	}
	f.Func("size", "sizes of messages, multiples of 8 bytes up to 64MiB, with commas between them (default 4KiB to 1MiB, times four)", func(text string) error {
		p.sizes = nil
		for s := range strings.SplitSeq(text, ",") {
			n, err := units.ParseBytes(s)
			if err == nil && (n < 8 || n > 64*units.MiB || n%8 != 0) {
				err = fmt.Errorf("%v: choose a multiple of 8 bytes up to 64 MiB", n)
			}
			if err != nil {
				return err
			}
			p.sizes = append(p.sizes, n)
		}
		return nil
	})
	f.Func("only", "only rows whose name matches this `regexp`", func(s string) (err error) {
		p.only, err = regexp.Compile(s)
		return err
	})
	f.IntVar(&p.inflight, "inflight", 16, "messages under way at a time, 1 to 128")
	f.IntVar(&p.rounds, "rounds", 3, "how often each point is measured, 1 to 100; tables have medians")
	f.DurationVar(&p.duration, "duration", time.Second, "how long each point is measured in each round, 50ms to 1h")
	f.DurationVar(&p.warm, "warm", 300*time.Millisecond, "how long each point is run before that, 10ms to 1h")
	f.BoolVar(&p.install, "install", false, "install Debian packages that are missing with apt-get")
	f.StringVar(&p.json, "json", "", "write the results to this `file`, too")
	f.StringVar(&p.markdown, "markdown", "", "write the tables to this `file`, too")
	f.SetOutput(os.Stdout)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return p, p.check(f.Args())
}

func (p *plan) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %q? See --help", rest[0])
	case p.inflight < 1 || p.inflight > 128:
		return fmt.Errorf("-inflight %d: choose 1 to 128", p.inflight)
	case p.rounds < 1 || p.rounds > 100:
		return fmt.Errorf("-rounds %d: choose 1 to 100", p.rounds)
	case p.duration < 50*time.Millisecond || p.duration > time.Hour:
		return fmt.Errorf("-duration %v: choose 50ms to 1h", p.duration)
	case p.warm < 10*time.Millisecond || p.warm > time.Hour:
		return fmt.Errorf("-warm %v: choose 10ms to 1h", p.warm)
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
		if p.only == nil || p.only.MatchString(r.name) {
			all = append(all, r)
		}
	}
	return all
}

// missing are the packages that the chosen rows need and that aren't there.
func (p *plan) missing() (all []string) {
	for _, r := range p.chosen() {
		for name, file := range packages[r.kind] {
			if _, err := os.Stat(file); err != nil && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// prepare sees to it that nothing is missing.
func (p *plan) prepare() error {
	missing := p.missing()
	if len(missing) > 0 && p.install {
		args := append([]string{"-q", "-y", "install", "--no-install-recommends"}, missing...)
		if out, err := exec.Command("apt-get", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get install %s: %w\n%s", strings.Join(missing, " "), err, out)
		}
		missing = p.missing()
	}
	if len(missing) > 0 {
		return fmt.Errorf("libfabric or UCX can't be built without: sudo apt-get install %s (or -install does that, and -only '^sdr|quic|^TCP' leaves them out)", strings.Join(missing, " "))
	}
	return nil
}
