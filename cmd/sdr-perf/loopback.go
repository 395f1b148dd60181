// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/oob"
)

// runLoopback is a server and a client in one process, which meet as two processes do.
func (l *local) runLoopback(ctx context.Context, p *params, out *output, capture *capture) error {
	meet, first, second, err := l.loopbackPlaces()
	if err != nil {
		return usageError{err}
	}
	serverSide := *l
	serverSide.addr = first.addr
	listener, err := oob.Listen(ctx, net.JoinHostPort(meet.String(), "0"), oob.Config{Logger: l.log})
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
	if err = c.openAt(second); err == nil {
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

// loopbackPlaces are where the two ends are, and the address at which they meet. Both ends of a
// kernel's device have its address; others need one each.
func (l *local) loopbackPlaces() (meet netip.Addr, first, second place, err error) {
	meet = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	port, err := l.rdmaPort()
	if err != nil {
		return meet, first, second, err
	}
	first = place{addr: l.addr, port: port}
	if devices.Kernels(l.device) {
		return meet, first, first, nil
	}
	if !first.addr.IsValid() {
		first.addr = meet
	}
	second.addr, second.port = secondEnd(first.addr, port)
	return first.addr, first, second, nil
}
