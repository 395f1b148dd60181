// SPDX-License-Identifier: Apache-2.0

// Filecopy copies a file from one process to another over sdr, as an application that links the
// SDK would: it uses public packages only.
//
//	filecopy recv
//	filecopy send --to 192.0.2.1 original.bin
//	tar c folder | filecopy send --to 192.0.2.1 -
//
// Package sdrnet connects the ends and moves the content; what is left is about files. The receiver writes to a file
// without a name and gives it the final one when the hash of what is on disk agrees, so nothing incomplete ever has
// that name, and nothing is left when the receiver is killed. The copy is as old as the original, and as private, and has
// its name unless --out says another; then it replaces nothing. "-" is stdin at the sender and stdout at the receiver,
// which spool to a file: the one must know how much comes, the other passes on only what is whole.
//
// Limits: one file, one sender, no resumption, and whoever reaches the TCP port may send.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// Exit statuses.
const (
	exitFailure = 1
	exitUsage   = 2
)

// schemes are those that lose nothing.
var schemes = map[string]func() (scheme.Scheme, error){
	"adaptive": func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) },
	"ec-mds":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) },
	"sr":       func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.RTO}) },
	"sr-nack":  func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A file size limit (ulimit -f) then shows as an error of write, and not as a signal.
	signal.Ignore(syscall.SIGXFSZ)
	os.Exit(run(ctx, os.Args[1:]))
}

// run runs one command and returns the exit status.
func run(ctx context.Context, args []string) int {
	running := false // errors before that are mistakes in the call
	root := &cobra.Command{
		Use:   "filecopy",
		Short: "Copy a file from one process to another over sdr",
		Long: `Copy a file from one process to another over software-defined reliable RDMA.

Start the receiver, then the sender. Both may be on one host. To see what a bad link does, give both ends the
same --rtt, --rate, --drop, …: each end emulates the link for what it sends.`,
		Example: `  filecopy recv                       # into this folder, under the sender's name
  filecopy send --to HOST original.bin

  filecopy recv --out - | tar x       # "-" is stdin at the sender, stdout at the receiver
  tar c folder | filecopy send --to HOST -

  # 1 Gbit/s, 25 ms, 1 % loss, on one host
  filecopy recv --listen 127.0.0.1 --out copy.bin --rtt 25ms --rate 1gbit --drop 0.01
  filecopy send --to 127.0.0.1 original.bin       --rtt 25ms --rate 1gbit --drop 0.01`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	var to, listen, out string
	s := newCommand(&running, "send --to HOST[:PORT] FILE", "Send a file", "any", 1, cobra.ExactArgs(1),
		func(ctx context.Context, cfg *sdrnet.Config, args []string) error { return send(ctx, cfg, to, args[0]) })
	s.Flags().StringVar(&to, "to", "", "`HOST[:PORT]` where the receiver listens, port "+defaultPort+" unless given")
	r := newCommand(&running, "recv", "Receive a file", "4791", 2, cobra.NoArgs,
		func(ctx context.Context, cfg *sdrnet.Config, _ []string) error { return recv(ctx, cfg, listen, out) })
	r.Flags().StringVar(&listen, "listen", ":"+defaultPort, "TCP `ADDR[:PORT]` to wait on for a sender")
	r.Flags().StringVar(&out, "out", ".", "`FILE` to write, an existing one is replaced once the copy is complete; a folder, where it gets the original's name if that is free; or - for stdout")
	_ = s.MarkFlagRequired("to")
	root.AddCommand(s, r)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		err = fmt.Errorf("interrupted: %w", err)
	case errors.Is(err, syscall.EADDRINUSE) && strings.Contains(err.Error(), "UDP"):
		err = fmt.Errorf("%w (here: --udp-port any, or --addr)", err)
	}
	fmt.Fprintln(os.Stderr, "filecopy:", strings.ReplaceAll(err.Error(), "\n", "; "))
	if !running {
		return exitUsage
	}
	return exitFailure
}

// newCommand makes a command, which sets running when its flags make sense.
func newCommand(running *bool, use, short, port string, seed uint64, args cobra.PositionalArgs,
	do func(context.Context, *sdrnet.Config, []string) error,
) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: args}
	cfg := &sdrnet.Config{Silence: 30 * units.Second, Logger: slog.Default()}
	var link linkemu.Config
	var name string
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&name, "scheme", "adaptive", "reliability `scheme`, the same at both ends: "+schemeNames())
	f.TextVar(&cfg.Addr, "addr", netip.Addr{}, "local `IP` for RDMA packets (default: where the TCP connection ends)")
	f.StringVar(&port, "udp-port", port, "local UDP `PORT` for RDMA packets, or any")
	f.Var((*units.DurationValue)(&cfg.Silence), "silence", "give up when the peer is silent, or nothing arrives, for so long")
	f.Var((*units.DurationValue)(&link.RTT), "rtt", "emulated link: round-trip time, such as 25ms")
	f.Var(&link.Rate, "rate", "emulated link: rate, such as 1gbit; sending is paced to it")
	f.Float64Var(&link.Drop, "drop", 0, "emulated link: `probability` that a packet is lost, such as 1e-3")
	f.Float64Var(&link.Reorder, "reorder", 0, "emulated link: `probability` that a packet is overtaken by later ones")
	f.Float64Var(&link.Duplicate, "duplicate", 0, "emulated link: `probability` that a packet arrives twice")
	f.Uint64Var(&link.Seed, "seed", seed, "`number` that the emulated link's faults depend on; another one at each end")
	f.Lookup("rtt").DefValue, f.Lookup("rate").DefValue = "", "" // not "0 ns": the help needn't say it
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if cfg.Scheme = schemes[name]; cfg.Scheme == nil {
			return fmt.Errorf("unknown scheme %q: choose one of %s", name, schemeNames())
		}
		if cfg.UDPPort, err = parsePort(port); err != nil {
			return err
		}
		if cfg.Silence < 100*units.Millisecond {
			return fmt.Errorf("--silence %v: choose at least 100 ms", cfg.Silence)
		}
		if err := link.Validate(); err != nil {
			return err
		}
		if link.RTT > 0 || link.Rate > 0 || link.Drop > 0 || link.Reorder > 0 || link.Duplicate > 0 {
			// What the link carries of user data: each packet has headers, too.
			const mtu = 4096
			if link.Rate > 0 {
				cfg.Rate = units.RateOf(mtu, link.Rate.Time(mtu+roce.IPv4WriteImmOverhead))
			}
			cfg.SendDepth = max(1024, link.PacketsInFlight(mtu))
			cfg.Wrap = func(d backend.Device) (backend.Device, error) { return linkemu.Wrap(d, link) }
		}
		*running = true
		return do(c.Context(), cfg, args)
	}
	return c
}

func schemeNames() string { return strings.Join(slices.Sorted(maps.Keys(schemes)), ", ") }

func parsePort(text string) (uint16, error) {
	if text == "any" {
		return userroce.AnyPort, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || uint16(port) == userroce.AnyPort {
		return 0, fmt.Errorf("--udp-port %q: give a number from 1 to %d, or any", text, userroce.AnyPort-1)
	}
	return uint16(port), nil
}
