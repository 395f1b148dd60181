// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command vm runs a program in a virtual machine with a stock Debian kernel that has real
// Soft-RoCE (rdma_rxe), on hosts whose own kernel need not have any RDMA:
//
//	go run ./test/vm -- PROGRAM ARGS
//	go test -exec "go run github.com/sdr-rdma/go-sdr/test/vm" ./verbs
//	go run ./test/vm -suite short
//
// With -kernel 6.12-16k the VM is one of arm64 whose pages have 16 KiB, emulated. Its limits: x86-64 hosts with apt; one VM, with both
// ends of a veth pair and an rxe device on each, or for suite pair two VMs with a cable. See -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/kernel"
)

const usage = `Runs programs in a VM whose Debian kernel has Soft-RoCE: devices rxe0 and rxe1 on both ends of a veth pair.

  go run ./test/vm [flags] -- PROGRAM [ARGUMENTS]    run one program, exit with its status
  go run ./test/vm [flags] -suite NAME               build and run all tests of a suite, in one VM
  go run ./test/vm [flags] -suite pair               the same in two VMs, with a cable between their rxe0
  go test -exec "go run github.com/sdr-rdma/go-sdr/test/vm" PACKAGE
                                                     run the tests of any package (set CGO_ENABLED=0)

A kernel of arm64 wants programs that were built for it; go test -exec then needs a built vm, since GOARCH holds for go run, too:

  go build -o /tmp/vm ./test/vm
  CGO_ENABLED=0 GOARCH=arm64 go test -exec "/tmp/vm -kernel 6.12-16k" PACKAGE

The program is copied into the VM with the shared libraries it needs, and with the folder testdata
when the current one has it. Variables that start with SDR_, GODEBUG and GOTRACEBACK go along.
The first run downloads a kernel (70 to 120 MB) from the Debian archive of this machine's apt sources.

Flags:
`

// config is what the flags say.
type config struct {
	kernel, accel, mirror, cache, suite string
	timeout                             time.Duration
	memory, cpus, mtu                   int
	env, files, packages                list
	refresh, verbose, listOnly, prepare bool
	run                                 string
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// exitError ends the command with the status of a program in the VM.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// statusVM is the exit status when the VM itself failed, apart from any program's.
const statusVM = 125

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go watchParent(ctx, cancel)
	err := command(ctx, os.Args[1:])
	var exit exitError
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &exit):
		stop()
		os.Exit(int(exit))
	default:
		fmt.Fprintln(os.Stderr, "vm:", err)
		stop()
		os.Exit(statusVM)
	}
}

// watchParent ends the VM when the process that started this one is gone: whoever kills "go run" or
// "go test" does not reach us.
func watchParent(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for tick := time.Tick(time.Second); ctx.Err() == nil && os.Getppid() == parent; {
		<-tick
	}
	cancel(errors.New("the process that started the VM has ended"))
}

func command(ctx context.Context, args []string) error {
	c, rest, err := parse(args)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	if c.suite != "" {
		if len(rest) > 0 {
			return fmt.Errorf("-suite takes no program, got %q", rest)
		}
		return runSuite(ctx, c)
	}
	if len(rest) == 0 {
		return errors.New("no program given: go run ./test/vm -- PROGRAM ARGUMENTS (or -suite short; -help tells more)")
	}
	return runProgram(ctx, c, rest)
}

func parse(args []string) (*config, []string, error) {
	c := &config{}
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	f.StringVar(&c.kernel, "kernel", "6.1", "kernel `line`: "+strings.Join(kernel.Lines(), " or ")+"; or the path of an image of yours, Image or vmlinux, with all drivers built in")
	f.StringVar(&c.accel, "accel", "auto", "`mode` of the emulator: kvm, tcg, count (the guest's clock counts instructions), or auto, which takes kvm when a probe shows that it works")
	f.StringVar(&c.suite, "suite", "", "run a `suite` of tests instead of a program: "+strings.Join(suiteNames(), " or "))
	f.StringVar(&c.run, "run", "", "with -suite: only the tests that match this `regexp`")
	f.BoolVar(&c.listOnly, "list", false, "with -suite: list what would run, run nothing")
	f.BoolVar(&c.prepare, "prepare", false, "with -suite: download and build what it needs, run nothing")
	f.DurationVar(&c.timeout, "timeout", 10*time.Minute, "time `limit` of the VM, boot included")
	f.IntVar(&c.memory, "mem", 2048, "memory in `MiB`")
	f.IntVar(&c.cpus, "cpus", 2, "number of `CPUs`")
	f.IntVar(&c.mtu, "mtu", 4200, "MTU of the veth pair, or of the cable, in `bytes`; path MTU 4096 needs 4176")
	f.Var(&c.env, "env", "set a variable of the program, `KEY=VALUE` (may be repeated)")
	f.Var(&c.files, "file", "copy a file into the VM, `HOST[:GUEST]`; GUEST defaults to /job/files/NAME (may be repeated)")
	f.Var(&c.packages, "package", "unpack a Debian `package`, as it is in the archive, into the VM (may be repeated)")
	f.StringVar(&c.mirror, "mirror", "", "`URL` of a Debian archive (default: the one of this machine's apt sources)")
	f.StringVar(&c.cache, "cache", "", "cache `folder` (default: go-sdr/vm in the user's cache folder)")
	f.BoolVar(&c.refresh, "refresh", false, "drop the cache first: newest kernel, new probe")
	f.BoolVar(&c.verbose, "v", false, "print the VM's life: boot, modules, uptime")
	if err := f.Parse(args); err != nil {
		return nil, nil, err
	}
	if c.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, nil, fmt.Errorf("no cache folder: %w (name one with -cache)", err)
		}
		c.cache = filepath.Join(dir, "go-sdr", "vm")
	}
	return c, f.Args(), nil
}

// leastMTU is what interfaces need to have IPv6, and leastMemory what kernel, programs and their files need.
const leastMTU, mostMTU, leastMemory = 1280, 65535, 256

// check finds what is wrong with flags before anything is downloaded or booted.
func (c *config) check() error {
	switch {
	case c.mtu < leastMTU || c.mtu > mostMTU:
		return fmt.Errorf("-mtu %d: it must be %d to %d: IPv6 needs the least", c.mtu, leastMTU, mostMTU)
	case c.cpus < 1:
		return fmt.Errorf("-cpus %d: it must be at least 1", c.cpus)
	case c.memory < leastMemory:
		return fmt.Errorf("-mem %d: it must be at least %d", c.memory, leastMemory)
	case c.timeout <= 0:
		return fmt.Errorf("-timeout %v: it must be above 0", c.timeout)
	case c.suite == "" && (c.run != "" || c.listOnly || c.prepare):
		return errors.New("-run, -list and -prepare are for a -suite")
	case c.suite == benchSuite && c.run != "":
		return fmt.Errorf("suite %s has no tests for -run to choose from", benchSuite)
	}
	if _, err := regexp.Compile(c.run); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	for _, e := range c.env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("-env %s: it must be KEY=VALUE", e)
		}
	}
	return nil
}

// progress prints one line about a slow step.
func progress(what string) { fmt.Fprintln(os.Stderr, "vm:", what) }
