// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command peers measures completion times of sdr and of what else moves data over
// long, lossy links, all over the same emulated one between two processes in
// network namespaces of their own:
//
//	cd test/peers && go run . --help
//
// It needs root, for the namespaces, and leaves nothing behind.
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
		if err := serveHost(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	missed, err := p.run(ctx)
	switch {
	case errors.Is(err, hosts.ErrPrivilege):
		fmt.Fprintln(os.Stderr, "peers: "+err.Error()+": run it as root (sudo go run .)")
		os.Exit(2)
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "peers: interrupted:", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}
