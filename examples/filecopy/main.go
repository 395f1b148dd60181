// SPDX-License-Identifier: Apache-2.0

// Filecopy copies a file from one process to another over sdr, as an application that links the
// SDK would: it uses public packages only. Package sdrnet does all that isn't this program's own.
//
// The copy has its name only when its hash agrees with the original's, so nothing incomplete ever has that name, and
// nothing is left when the receiver is killed. It is as old as the original, and as private, and has its name unless
// --out says another; then it replaces nothing. "-" is stdin at the sender and stdout at the receiver, which spool to a
// file: the one must know how much comes, the other passes on only what is whole.
//
// Limits: one file, one sender, no resumption, and whoever reaches the TCP port may send.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/sdrnet"
)

// Exit statuses.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	defer stop()
	// A file size limit (ulimit -f), and a pipe that nobody reads any more (--out - | head), then show as errors of write and not
	// as signals: the sender hears why its file wasn't kept.
	signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE)
	status := exitUsage // of errors before the command begins
	err := newCommand(func() { status = exitFailure }).ExecuteContext(ctx)
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		err, status = fmt.Errorf("interrupted: %w", err), exitInterrupted
	}
	fmt.Fprintln(os.Stderr, "filecopy:", strings.ReplaceAll(err.Error(), "\n", "; "))
	os.Exit(status)
}

// newCommand makes the command, which calls begins when there is no mistake in the call.
func newCommand(begins func()) *cobra.Command {
	cfg := &sdrnet.Config{PrivateData: []byte(greeting)}
	root := &cobra.Command{
		Use:   "filecopy",
		Short: "Copy a file from one process to another over sdr",
		Long: `Copy a file from one process to another over software-defined reliable RDMA.

Start the receiver, then the sender. Both may be on one host. To see what a
bad link does, give both ends the same --rtt, --rate, --drop, …: each end
emulates the link for what it sends.`,
		Example: `  filecopy recv                    # into this folder, under the sender's name
  filecopy send --to HOST original.bin

  filecopy recv --out - | tar x    # "-" is stdin at the sender, stdout here
  tar c folder | filecopy send --to HOST -

  # 1 Gbit/s, 25 ms, 1 % loss, on one host
  filecopy recv --listen 127.0.0.1 --out copy.bin \
    --rtt 25ms --rate 1gbit --drop 0.01
  filecopy send --to 127.0.0.1 original.bin \
    --rtt 25ms --rate 1gbit --drop 0.01`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: the commands are send and recv, and filecopy --help says more", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return err
			}
			begins()
			return nil
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 "))
	root.SetFlagErrorFunc(nearest)
	f := flag.NewFlagSet("", flag.ContinueOnError)
	cfg.AddFlags(f)
	root.PersistentFlags().AddGoFlagSet(f)
	var to, listen, out string
	s := &cobra.Command{
		Use: "send --to HOST[:PORT] FILE", Short: "Send a file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || to == "" {
				return errors.New("send takes one FILE, or - for stdin, and --to: filecopy send --to HOST original.bin")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return send(c.Context(), cfg, to, args[0]) },
	}
	s.Flags().StringVar(&to, "to", "", "`HOST[:PORT]` where the receiver listens, port "+sdrnet.DefaultPort+" unless given")
	r := &cobra.Command{
		Use: "recv", Short: "Receive a file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: recv takes no FILE; --out says where to write", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return recv(c.Context(), cfg, listen, out) },
	}
	r.Flags().StringVar(&listen, "listen", ":"+sdrnet.DefaultPort, "TCP `ADDR[:PORT]` to wait on for a sender")
	r.Flags().StringVar(&out, "out", ".", "`FILE` to write, an existing one is replaced once the copy is complete; a folder, where it gets the original's name if that is free; or - for stdout")
	root.AddCommand(s, r)
	return root
}

// nearest adds to the error of a flag that isn't there the one that may be meant. Cobra does so for commands only, so the flags are made some.
func nearest(c *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	name := missing.GetSpecifiedName()
	names := &cobra.Command{SuggestionsMinimumDistance: min(len(name)*2/3, 2)}
	c.Flags().VisitAll(func(f *pflag.Flag) { names.AddCommand(&cobra.Command{Use: f.Name, RunE: c.RunE}) })
	if near := names.SuggestionsFor(name); len(near) > 0 && len(name) > 1 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return fmt.Errorf("%w: %s --help says what there is", err, c.CommandPath())
}
