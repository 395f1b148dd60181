// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

const trimHelp = `Run sdr-perf between two hosts through a switch with a slow port, and show in
one table what comes of it with each switch and each congestion control.

The hosts and the switch are network namespaces of this machine, joined by veth
pairs; they end with the command. Switches (--switch):

  soft     a program that trims, with a queue of its own; it needs no right
           where users may make user namespaces
  drop     the same with a queue that drops at its tail
  xdp      a bridge of the kernel that trims where packets come in, by an XDP
           program with a virtual queue: nothing waits, so what is let pass
           leaves at once. It takes root, as the next does
  xdp+htb  the same, and behind it HTB at the rate of the line, which keeps what
           was let pass waiting

A switch that trims cuts a packet to 74 bytes of headers when its queue is full,
and sends those on. The receiver returns them, and the sender repeats just what
was cut, at once. Columns:

  goodput    user data that arrived in the time that all transfers took
  of line    that over what the line could carry beside the headers and what was
             cut
  p99        of the transfers' completion times, - of fewer than 100
  cut        packets that the switch has cut
  dropped    packets that the switch has dropped
  repeats    packets sent again; timers: that expired
  data       whether the content was right

and with --wide:

  seen       header-only packets at the receiver, back: those that the sender
             was told of; with --congestion fixed they should be as many as were
             cut. Other controllers are given transfers to warm up, and what is
             cut of those is in cut alone
  joined     of what was cut that which one before it, which waited, carries on
             (--carry): it takes 8 bytes of the line, not 74
  spurious   repeats that were not needed
  packets/s  that the switch moved, both ways, while the programs ran, from
             their start to their end

A transfer takes less time by itself than a timer, which is all that tells of
what was dropped: that is what the p99 shows. On a machine that does other
things, too, run it with real-time priority (chrt -r 5).

With --congestion fixed data is sent at --offered times the rate of the line
whatever comes of it, which no sender should do: it shows the mechanism. search
and bbr show what a controller makes of it.`

// An experiment is what live trim is asked for.
type experiment struct {
	rate        units.Rate
	offered     float64
	queue       units.Bytes
	every       int
	carry       int
	keep        units.Bytes
	mtu         units.Bytes
	size        units.Bytes
	iters       int
	scheme      string
	switches    []string
	congestions []string
	perf        string
	json        string
	wide        bool
	inner       bool
}

func newTrim() *cobra.Command {
	e := &experiment{rate: 200 * units.Mbit, offered: 1.5, queue: 32 * units.KiB, mtu: 1024, size: 128 * units.KiB, iters: 128, scheme: "sr", carry: 1}
	c := &cobra.Command{
		Use: "trim", Short: "A switch that trims, beside one that drops", Long: trimHelp,
		Example: "  sdr-switch live trim\n  sdr-switch live trim --switch soft,drop,xdp,xdp+htb \\\n    --congestion fixed --congestion search\n" +
			"  sdr-switch live trim --rate 0 --each 100 -s 4MiB -n 20   # 1 % cut, no queue\n" +
			"  # packets/s: what the switch in software carries\n  sdr-switch live trim --switch soft --rate 0 --each 100 -s 64MiB",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.Var(&e.rate, "rate", "rate of the switch's ports, for Ethernet frames without preamble; 0: no limit")
	f.Float64Var(&e.offered, "offered", e.offered, "what is sent by a fixed rate, as a multiple of --rate; 0: as much as the sender can")
	f.Var(&e.queue, "queue", "bytes that wait for a port before packets are cut or dropped")
	f.IntVar(&e.every, "each", 0, "cut, or drop, each `n`-th packet of data whatever waits, 2 or more")
	f.IntVar(&e.carry, "carry", e.carry, "header-only packets that one of them carries on, itself included, while it waits, 1 to 64: soft only")
	f.Var(&e.keep, "keep", "bytes that stay of a packet's frame, 61 to 512: today's switches leave 256, and below 74 nobody knows what was cut (default: its headers)")
	f.VarP(&e.mtu, "mtu", "m", "payload of a packet, 256 to 4096")
	f.VarP(&e.size, "size", "s", "size of each transfer")
	f.IntVarP(&e.iters, "iters", "n", e.iters, "`number` of transfers")
	f.StringVar(&e.scheme, "scheme", e.scheme, "reliability scheme")
	f.StringSliceVar(&e.switches, "switch", []string{string(soft), string(drop)}, "switches, one or a `list`: "+kindNames())
	f.StringArrayVar(&e.congestions, "congestion", []string{"fixed"}, "congestion `control`; give it again for more rows")
	f.StringVar(&e.perf, "sdr-perf", "", "the sdr-perf `program` (default: beside this one, or in $PATH)")
	f.StringVar(&e.json, "json", "", "write the results to `FILE`, or - for stdout")
	f.BoolVar(&e.wide, "wide", false, "show all columns, more than 80 characters")
	f.BoolVar(&e.inner, "inner", false, "")
	_ = f.MarkHidden("inner")
	usage.Offer(c, "switch", func() []string { return strings.Split(kindNames(), ",") }, cobra.ShellCompDirectiveNoSpace)
	usage.Offer(c, "scheme", schemes.Names, 0)
	usage.Offer(c, "congestion", congestion.Names, 0)
	return c
}

// check says what is wrong with the options, and finds sdr-perf.
func (e *experiment) check() error {
	if _, err := schemes.New(e.scheme, schemes.Params{}); err != nil {
		return usage.Wrap(err)
	}
	if err := e.checkRows(); err != nil {
		return err
	}
	if _, err := roce.MTUOf(e.mtu); err != nil {
		return usage.Errorf("--mtu %d: choose 256, 512, 1024, 2048 or 4096", int64(e.mtu))
	}
	switch {
	case e.rate < 0 || e.rate != 0 && e.rate < units.Mbit:
		return usage.Errorf("--rate %d bit/s: choose 1 Mbit/s or more, or 0 for no limit", e.rate)
	case !(e.offered >= 0 && e.offered <= 100):
		return usage.Errorf("--offered %v: choose 0 to 100", e.offered)
	case e.queue < 1 || e.queue > units.GiB:
		return usage.Errorf("--queue %d: choose 1 byte to 1 GiB", e.queue)
	case e.every < 0 || e.every == 1: // no packet would arrive whole, not even that which looks whether the path carries the MTU
		return usage.Errorf("--each %d: choose 2 or more, or 0 for none", e.every)
	case e.carry < 1 || e.carry > roce.MostTrimmed:
		return usage.Errorf("--carry %d: choose 1 to %d", e.carry, roce.MostTrimmed)
	case e.keep != 0 && (e.keep <= trim.HeaderSize || e.keep > 512 || e.carry > 1):
		return usage.Errorf("--keep %d: choose 61 to 512, and no --carry, for which only headers may be left", int64(e.keep))
	case e.keep >= e.mtu+header:
		return usage.Errorf("--keep %d: a packet of --mtu %d is a frame of %d bytes, so that nothing could be cut off", int64(e.keep), int64(e.mtu), int64(e.mtu+header))
	case e.iters < 1 || e.size < 1:
		return usage.Errorf("--iters %d, --size %d: choose at least 1", e.iters, int64(e.size))
	}
	if err := result.CheckWritable(e.json); err != nil {
		return usage.Wrap(err)
	}
	if e.perf != "" {
		if _, err := exec.LookPath(e.perf); err != nil {
			return usage.Errorf("--sdr-perf %s: %v: give the path of the program, which go install ./cmd/sdr-perf makes", e.perf, errors.Unwrap(err))
		}
		return nil
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), "sdr-perf")
		if _, err := os.Stat(beside); err == nil {
			e.perf = beside
			return nil
		}
	}
	path, err := exec.LookPath("sdr-perf")
	if err != nil {
		return usage.Errorf("no sdr-perf beside this program or in $PATH: go install ./cmd/sdr-perf, or say where it is with --sdr-perf")
	}
	e.perf = path
	return nil
}

// checkRows says what is wrong with the switches and the congestion controls.
func (e *experiment) checkRows() error {
	if len(e.switches) == 0 || len(e.congestions) == 0 {
		return usage.Errorf("--switch, --congestion: choose at least one of each")
	}
	for _, c := range e.congestions {
		spec, err := congestion.Parse(e.controller(c))
		if err != nil {
			return usage.Wrap(err)
		}
		if err := spec.CheckDevice(0); err != nil { // the rate is the switch's, which no sender is told
			return usage.Errorf("--congestion %s: %v", c, err)
		}
	}
	port := e.trimmer()
	for _, name := range e.switches {
		k := kind(name)
		switch {
		case !slices.Contains(kinds, k):
			return usage.Errorf("--switch %q: choose one or more of %s", name, kindNames())
		case k.kernel() && os.Geteuid() != 0 || k.kernel() && e.inner:
			return usage.Errorf("--switch %s: eBPF programs take root", name)
		case k.kernel() && e.mtu >= units.Bytes(os.Getpagesize()): // MTUs are powers of two, and headers go with them
			return usage.Errorf("--switch %s: XDP programs get frames that fit into a page of memory: choose --mtu %d", name, os.Getpagesize()/2)
		case k.kernel() && (e.rate == 0 || e.every > 0 || e.carry > 1):
			return usage.Errorf("--switch %s: give it a --rate, and neither --each nor --carry", name)
		case k.kernel() && port.Validate() != nil:
			return usage.Errorf("--switch %s: %v", name, port.Validate())
		}
	}
	return nil
}

func (e *experiment) run(ctx context.Context, out, log io.Writer) error {
	if err := e.check(); err != nil {
		return err
	}
	if os.Geteuid() != 0 && !e.inner {
		return again(ctx)
	}
	return e.rows(ctx, out, log, e.measure)
}

// denied adds to the error of what takes rights in the namespaces that they are missing there, where an ordinary user made them.
func (e *experiment) denied(err error) error {
	if e.inner && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: this user may make namespaces, but not networks in them: allow that (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns), or run it as root", err)
	}
	return err
}

// rows measures what was asked for, and shows each row once it is there. What was measured before something goes wrong, or an interrupt, is
// kept.
func (e *experiment) rows(ctx context.Context, out, log io.Writer, measure func(context.Context, kind, string, io.Writer) (row, error)) error {
	table := out
	if e.json == "-" {
		table = io.Discard
	}
	if err := e.head(table); err != nil {
		return err
	}
	rows, all := []row{}, len(e.congestions)*len(e.switches)
	for _, c := range e.congestions {
		for _, k := range e.switches {
			what := fmt.Sprintf("sdr-switch: switch %s, congestion control %s: row %d of %d", k, c, len(rows)+1, all)
			said := usage.Saying(log, func() string { return what })
			r, err := measure(ctx, kind(k), c, log)
			said()
			if err == nil {
				rows = append(rows, r)
				err = e.line(table, &r)
			}
			switch {
			case err == nil:
				continue
			case ctx.Err() != nil:
				err = ctx.Err()
			default:
				err = fmt.Errorf("switch %s, congestion control %s: %w", k, c, err)
			}
			if len(rows) == 0 {
				return err
			}
			return errors.Join(err, e.store(out, rows))
		}
	}
	return e.store(out, rows)
}

// store writes the JSON of the rows, if it is asked for.
func (e *experiment) store(out io.Writer, rows []row) error {
	if e.json == "" {
		return nil
	}
	return result.Write(out, e.json, rows)
}

// A status is that with which this program has ended in a namespace of its own, where it has said why.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// again runs this program in a user namespace of its own, in which it may make networks. It writes to what this one has: a pipe between them would
// keep from it that a disk is full, or that nobody reads any more.
func again(ctx context.Context) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, own, append(os.Args[1:], "--inner")...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	runtime.LockOSThread() // for the kernel it is the child's parent
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:     true, // else a terminal's Ctrl-C would reach it beside Cancel's, and a second one ends it at once
		Pdeathsig:   syscall.SIGKILL,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err = c.Run()
	exit, by := (*exec.ExitError)(nil), syscall.WaitStatus(0)
	if errors.As(err, &exit) {
		by, _ = exit.Sys().(syscall.WaitStatus)
	}
	switch {
	case err == nil:
		return nil
	case exit != nil && by.Exited():
		return status(by.ExitStatus())
	case ctx.Err() != nil:
		return ctx.Err()
	case exit != nil && by.Signaled():
		return status(128 + int(by.Signal())) // as shells have it
	}
	return fmt.Errorf("make a user namespace: %w; allow users to (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, on Ubuntu kernel.apparmor_restrict_unprivileged_userns), or run it as root", err)
}
