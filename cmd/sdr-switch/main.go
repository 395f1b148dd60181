// SPDX-License-Identifier: Apache-2.0

// Command sdr-switch runs a switch that trims: one that cuts packets to their headers when its queue is full, instead of
// dropping them, as DCP has its switches do.
//
//	sdr-switch live trim
//	sdr-switch live trim --rate 200mbit --offered 1.5 --scheme adaptive --json results.json
//	sdr-switch attach trim --dev eth1 --rate 10gbit
//
// live builds a network of two hosts and a switch in namespaces of its own on this machine, as root or as any user who may
// make user namespaces, and runs sdr-perf through it. attach puts the trimmer on an interface of this machine as an XDP
// program. Exit status: 0, 1 for a failure, 2 for usage, 130 after an interrupt.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := usage.Stops()
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	_, err := usage.Execute(ctx, root)
	if s := status(0); errors.As(err, &s) {
		return int(s)
	}
	return usage.Report("sdr-switch", err)
}

func newRoot() *cobra.Command {
	return release.Root("sdr-switch", "Run a switch that trims packets instead of dropping them",
		group("live", "Run sdr-perf through a switch on this machine", newTrim()),
		group("attach", "Put a switch function on an interface", newAttachTrim()))
}

// group is a command that only holds others.
func group(name, short string, sub *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sub)
	return cmd
}
