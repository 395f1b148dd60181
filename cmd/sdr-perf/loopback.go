// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/oob"
)

// runLoopback is a server and a client in one process, which meet as two processes do.
func (l *local) runLoopback(ctx context.Context, p *params, out *output, capture *capture) error {
	first := l.addr
	if !first.IsValid() {
		first = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	port, err := l.rdmaPort()
	if err != nil {
		return usageError{err}
	}
	serverSide := *l
	serverSide.addr = first
	listener, err := oob.Listen(ctx, net.JoinHostPort(first.String(), "0"), oob.Config{Logger: l.log})
	if err != nil {
		return err
	}
	defer listener.Close()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		s := &server{own: p, set: pflag.NewFlagSet("", pflag.ContinueOnError), local: &serverSide}
		served <- s.serve(ctx, listener)
	}()
	c := l.newClient(p, listener.Addr().String(), out, capture)
	second, port := secondEnd(first, port)
	if err = c.openAt(second, port); err == nil {
		err = c.measure(ctx)
	}
	if err != nil {
		stop() // the server may wait for a client that won't come
	}
	if serr := <-served; err == nil {
		err = serr
	}
	return err
}
