// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/point"
)

// serveHost is one side of a measurement: spec is a point.Spec.
func serveHost(ctx context.Context, spec []byte, turns net.Conn) error {
	var s point.Spec
	if err := json.Unmarshal(spec, &s); err != nil {
		return err
	}
	if s.Favoured {
		hosts.UseNice()
	}
	return point.Serve(ctx, &s, turns, os.Stdin, os.Stdout)
}
