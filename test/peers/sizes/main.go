// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command sizes measures how many messages of a size a second go from one process to another over loopback, with
// several under way, by sdr and by what else moves messages: libfabric, UCX, quic-go, TCP:
//
//	cd test/peers && go run ./sizes --help
//
// Both ends count their own processor time, every message is checked, and rows take turns in rounds, so that what else the machine does
// is no row's alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == endArgument {
		if err := serveEnd(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
		defer stop()
		err = p.run(ctx)
		if err != nil && ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "sizes: interrupted:", err)
			os.Exit(130)
		}
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "sizes:", err)
	if errors.As(err, new(*measureError)) {
		os.Exit(1)
	}
	os.Exit(2)
}
