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

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
)

func main() {
	hosts.Serve("neighbours", serveEnd)
	hosts.Measure("neighbours", "run it as root, or behind unshare --user --map-root-user --net", measure)
}

func measure(ctx context.Context, args []string) (missed int, err error) {
	p, err := parse(args)
	if err != nil {
		return 0, err
	}
	return p.run(ctx)
}
