// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/congestion"
)

const longHelp = `sdr-perf measures the completion time of reliable RDMA writes.

Without a HOST it is the server, which receives: it serves one client and exits
(--keep: many). With one it is the client, which sends and says what is to be
measured. With --loopback it is both, over real sockets on 127.0.0.1 and
127.0.0.2. Nothing needs to be installed, and no privilege is needed.

Packets are RoCEv2. Device userroce makes them itself; softroce is the kernel's
Soft-RoCE device, if there is one; and each RDMA device of the kernel has its
own name (-d). The ends may have different ones. With rc: before its name, an
RDMA device carries data over reliable connections (RC), which repeat losses by
themselves: at both ends, as a baseline, or where it has no UC; --reliability
none suits. The client says what is measured; the server takes only what
concerns its own end: -d, -i, -x, --addr, --udp-port, -p, --workers, --spin,
--ecn, --dscp, --trim, --trim-dscp, --keep, --pcap, -v. With others, as perftest
has them at both ends, it turns away clients that ask for something else.

A time runs from the post at the sender to the final acknowledgement at the
sender. With --rtt and the other options of the emulated link the ends emulate
one, each for what it sends, and T/ideal is the average over size/rate + RTT: 1
is what no reliability scheme can beat. With several under way (-t, -q) it is
the time of all over what they take at least: RTT + all sizes/rate, or as many
times size/rate + RTT as follow each other.

Sizes and rates have units: 4096, 64KiB, 1GiB (a bare k, m, g is binary);
100mbit, 1gbit; 20us, 25ms.`

const examples = `  # Both ends here, over a transatlantic link that loses a packet in a thousand
  sdr-perf --loopback -s 64MiB --rtt 90ms --rate 1gbit --drop 1e-3

  # Two schemes, three sizes, losses in bursts of 8 packets; JSON for a program
  sdr-perf --loopback --reliability sr,sr-nack -s 128KiB,1MiB,8MiB \
           --rtt 25ms --rate 1gbit --drop 1e-3 --burst 8 --json results.json

  # Between two hosts
  hostb$ sdr-perf
  hosta$ sdr-perf -s 1GiB hostb

  # On an RDMA device of the kernel; GIDs and ports as perftest's -x and -i
  hostb$ sdr-perf -d rxe0 -x 1
  hosta$ sdr-perf -d rxe0 -x 1 -m 4096 -s 1MiB hostb

  # What the adapter's own reliability makes of it
  hostb$ sdr-perf -d rc:rxe0
  hosta$ sdr-perf -d rc:rxe0 --reliability none -s 1MiB hostb

  # What goes over the wire, for Wireshark
  sdr-perf --loopback -s 64KiB -n 1 --warmup 0 --pcap sdr.pcap`

// A call is what a command line asks for.
type call struct {
	params
	local
	host  string         // "" at a server and with --loopback
	given *pflag.FlagSet // which flags were given
}

// newCommand makes the command, which sets running when it begins, and calls start once all that was asked for
// has been checked.
func newCommand(running *bool, start func(*call, *cobra.Command) error) *cobra.Command {
	a, met := &call{params: defaultParams()}, &strangers{}
	c := &cobra.Command{
		Use:   "sdr-perf [flags] [HOST]",
		Short: "Measure the completion time of reliable RDMA writes",
		Long:  longHelp, Example: examples,
		Args:          checkArgs(met),
		SilenceErrors: true, SilenceUsage: true,
	}
	a.given = c.Flags()
	a.given.SetNormalizeFunc(withHyphens)
	a.params.register(a.given)
	a.local.register(a.given)
	met.register(a.given)
	a.given.SortFlags = false
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(usage.Unknown(c, usage.Number(err))) })
	c.RunE = func(c *cobra.Command, args []string) error {
		*running = true
		if len(args) == 1 {
			a.host = args[0]
		}
		if err := a.check(); err != nil {
			return err
		}
		for _, said := range met.accepted {
			fmt.Fprintln(c.ErrOrStderr(), "sdr-perf:", said)
		}
		return misspelt(c, a.host, start(a, c))
	}
	c.AddCommand(devicesCommand(), congestionCommand(), doctorCommand(), compareCommand(running))
	complete(c)
	release.Register(c)
	usage.Help(c)
	usage.Filled(c)
	usage.Completion(c)
	return c
}

// misspelt adds to the error of a HOST that isn't known which command may be meant: one that isn't there is taken for a HOST.
func misspelt(c *cobra.Command, host string, err error) error {
	c.SuggestionsMinimumDistance = 2 // letters wrong, as cobra allows programs of subcommands only
	if near := c.SuggestionsFor(host); host != "" && len(near) > 0 && errors.As(err, new(*net.DNSError)) {
		return fmt.Errorf("%w; did you mean the command %s?", err, strings.Join(near, " or "))
	}
	return err
}

// check says what is wrong with a call.
func (a *call) check() error {
	if err := checkZeros(a.given); err != nil {
		return err
	}
	if a.all {
		a.Sizes = allSizes()
	}
	if err := a.local.check(a.host); err != nil {
		return err
	}
	if err := a.params.check(); err != nil {
		return usage.Wrap(err)
	}
	tasks, err := a.tasks(&a.sweep)
	if err != nil {
		return usage.Wrap(err)
	}
	if err := a.checkIdle(); err != nil {
		return err
	}
	if err := a.bars.checkIdeal(tasks); err != nil {
		return err
	}
	return a.checkPlot(tasks)
}

func devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "devices", Short: "List the devices that -d takes", Args: usage.Args(cobra.NoArgs),
		Run: func(c *cobra.Command, _ []string) {
			for _, name := range devices.Names() {
				fmt.Fprintln(c.OutOrStdout(), name)
			}
		},
	}
}

func congestionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "congestion", Short: "List the controls that --congestion takes, and their constants", Args: usage.Args(cobra.NoArgs),
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprint(c.OutOrStdout(), usage.Values("congestion", congestion.Help))
		},
	}
}

// flagError says in a person's words what pflag found wrong.
func flagError(err error) error {
	var value *pflag.InvalidValueError
	switch {
	case err.Error() == "flag needs an argument: 's' in -s", strings.HasPrefix(err.Error(), `invalid argument "-`) && strings.Contains(err.Error(), `"-s, --size"`):
		return fmt.Errorf("%w: -s SIZE is the size of a transfer; sdr-perf without a HOST is the server", err)
	case err.Error() == "flag needs an argument: 'c' in -c":
		return fmt.Errorf("%w: the HOST has no flag: sdr-perf HOST is the client", err)
	case err.Error() == "flag needs an argument: --json":
		return fmt.Errorf("%w: --json FILE, or --json - for stdout", err)
	case errors.As(err, &value) && value.GetFlag().Name == "addr":
		return fmt.Errorf("--addr %q: want an IP address of this host, such as 192.0.2.1", value.GetValue())
	}
	return err
}
