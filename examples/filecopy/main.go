// SPDX-License-Identifier: Apache-2.0

// Filecopy copies a file from one process to another over sdr, as an application that links the
// SDK would: it uses public packages only.
//
//	filecopy recv --listen 192.0.2.1:18515 --out copy.bin
//	filecopy send --to 192.0.2.1:18515 original.bin
//
// The ends meet over TCP (package oob); the file then travels as RDMA writes over user-space RoCEv2
// (backend/userroce, UDP port 4791) under the reliability scheme that both were told, and its
// SHA-256 and its permissions behind it. The receiver writes to a file without a name and gives it the
// final one when the hash of what is on disk agrees, so nothing incomplete ever has that name, and
// nothing is left when the receiver is killed.
//
// The code in reading order: endpoint.go opens a device and connects, send.go and recv.go are the
// two ends, message.go is how they say short things to each other.
//
// Limits: one file, one sender, no resumption, and whoever reaches the TCP port may send.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailure = 1
	exitUsage   = 2
)

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
	root := newCommand(&running)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintf(os.Stderr, "filecopy: %v\n", err)
	if !running || errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailure
}

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// newCommand makes the commands, which set running when they begin.
func newCommand(running *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "filecopy",
		Short: "Copy a file from one process to another over sdr",
		Long: `Copy a file from one process to another over software-defined reliable RDMA.

Start the receiver, then the sender. Both may be on one host: the sender then takes another address
(127.0.0.2) or another UDP port by itself. To see what a bad link does, give both ends the same
--rtt, --rate, --drop, …: each end emulates the link for what it sends.`,
		Example: `  filecopy recv --listen 127.0.0.1:18515 --out copy.bin
  filecopy send --to 127.0.0.1:18515 original.bin

  # 1 Gbit/s, 25 ms, 1 % loss
  filecopy recv --listen 127.0.0.1:18515 --out copy.bin --rtt 25ms --rate 1gbit --drop 0.01
  filecopy send --to 127.0.0.1:18515 original.bin       --rtt 25ms --rate 1gbit --drop 0.01`,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newSendCommand(running), newRecvCommand(running))
	return root
}

func newSendCommand(running *bool) *cobra.Command {
	var o options
	var to string
	c := &cobra.Command{
		Use: "send --to ADDR:PORT FILE", Short: "Send a file", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			*running = true
			if err := o.check(); err != nil {
				return err
			}
			return send(c.Context(), &o, to, args[0])
		},
	}
	c.Flags().StringVar(&to, "to", "", "`ADDR:PORT` that the receiver listens on")
	_ = c.MarkFlagRequired("to")
	o.register(c.Flags())
	return c
}

func newRecvCommand(running *bool) *cobra.Command {
	var o options
	var listen, out string
	c := &cobra.Command{
		Use: "recv --listen ADDR:PORT --out FILE", Short: "Receive a file", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			*running = true
			if err := o.check(); err != nil {
				return err
			}
			return recv(c.Context(), &o, listen, out)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "TCP `ADDR:PORT` to wait on for a sender")
	c.Flags().StringVar(&out, "out", "", "`FILE` to write; an existing one is replaced once the copy is complete")
	_ = c.MarkFlagRequired("listen")
	_ = c.MarkFlagRequired("out")
	o.register(c.Flags())
	return c
}
