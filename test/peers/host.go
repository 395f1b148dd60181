// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/point"
)

// serveHost is one side of a measurement: spec is a point.Spec.
func serveHost(spec string) error {
	var s point.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	if s.Favoured {
		hosts.UseNice()
	}
	pipe, err := net.FileConn(os.NewFile(hosts.Turns, "turns"))
	if err != nil {
		return err
	}
	defer pipe.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	return point.Serve(ctx, &s, pipe, os.Stdin, os.Stdout)
}
