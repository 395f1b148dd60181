// SPDX-License-Identifier: Apache-2.0

// Command sdr-switch runs a switch that trims: one that cuts packets to their headers when its queue is full, instead of
// dropping them, as DCP has its switches do.
//
//	sdr-switch live trim
//	sdr-switch live trim --rate 200mbit --offered 1.5 --scheme adaptive --json results.json
//	sdr-switch attach trim --dev eth1 --rate 10gbit
//
// attach puts the trimmer on an interface of this machine as an XDP program. live builds a network of two hosts and a switch in namespaces of its own on this machine, as root or as any user who may
// make user namespaces, and runs sdr-perf through it. Exit status: 0, 1 for a failure, 2 for usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "sdr-switch:", err)
	var mistake usage.Error
	if errors.As(err, &mistake) {
		return 2
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sdr-switch",
		Short:         "Run a switch that trims packets instead of dropping them",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	usage.Flags(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	live := &cobra.Command{
		Use: "live", Short: "Run sdr-perf through a switch on this machine",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	live.AddCommand(newTrim())
	attach := &cobra.Command{
		Use: "attach", Short: "Put a switch function on an interface",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	attach.AddCommand(newAttachTrim())
	root.AddCommand(live, attach)
	release.Register(root)
	return root
}
