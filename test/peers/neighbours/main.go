// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command neighbours puts flows of sdr beside each other and beside TCP on one emulated link, in network
// namespaces, and prints what each of them got and whether that meets the bars of docs/results/congestion.md:
//
//	cd test/peers && go run ./neighbours --help
//
// It needs the right to make network namespaces, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == hosts.Argument {
		if err := serveEnd(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "neighbours:", err)
			os.Exit(1)
		}
		return
	}
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbours:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	missed, err := p.run(ctx)
	switch {
	case errors.Is(err, hosts.ErrPrivilege):
		fmt.Fprintln(os.Stderr, "neighbours: "+err.Error()+": run it as root, or behind unshare --user --map-root-user --net")
		os.Exit(2)
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "neighbours: interrupted:", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "neighbours:", err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}
