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

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
)

func main() {
	hosts.Serve("peers", serveHost)
	hosts.Measure("peers", "run it as root (sudo go run .)", measure)
}

func measure(ctx context.Context, args []string) (missed int, err error) {
	p, err := parse(args)
	if err != nil {
		return 0, err
	}
	return p.run(ctx)
}
