// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/oob"
)

// runLoopback is a server and a client in one process, which meet as two processes do.
func (l *local) runLoopback(ctx context.Context, p *params, out *output, capture *capture) error {
	s := &server{own: p, set: pflag.NewFlagSet("", pflag.ContinueOnError)}
	c := l.newClient(p, "", out, capture)
	c.alone = true
	meet, err := l.openLoopback(s, c)
	if err != nil {
		return err
	}
	defer func() {
		s.close()
		c.close()
	}()
	listener, err := oob.Listen(ctx, net.JoinHostPort(meet.String(), "0"), oob.Config{Logger: l.log})
	if err != nil {
		return err
	}
	defer listener.Close()
	c.addr = listener.Addr().String()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, listener) }()
	if err = c.measure(ctx); err != nil {
		stop() // the server may wait for a client that won't come
	}
	if serr := <-served; err == nil {
		err = serr
	}
	return err
}

// loopbackRuns is how many runs may be on one host with RoCEv2's port each: further ones take any port.
const loopbackRuns = 8

// openLoopback opens the device of both ends. A run that isn't told where leaves the addresses and ports that
// another has taken alone.
func (l *local) openLoopback(s *server, c *client) (meet netip.Addr, err error) {
	serverSide := *l
	s.local = &serverSide
	for run := range loopbackRuns + 1 {
		var first, second place
		if meet, first, second, err = l.loopbackPlaces(run); err != nil {
			return meet, usage.Wrap(err)
		}
		serverSide.addr = first.addr
		if s.end, err = serverSide.openEndpoint(receiving, first, nil); err == nil {
			if err = c.openAt(second); err == nil {
				return meet, nil
			}
			s.close()
		}
		if l.udpPort != "" || devices.Kernels(l.device) || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return meet, err
}

// loopbackPlaces are where the two ends of the so manieth run are, and the address at which they meet. Both
// ends of a kernel's device have its address; others need one each.
func (l *local) loopbackPlaces(run int) (meet netip.Addr, first, second place, err error) {
	meet = netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + 2*run)})
	port, err := l.rdmaPort()
	if err != nil {
		return meet, first, second, err
	}
	if l.udpPort == "" && (run == loopbackRuns || run > 0 && l.addr.IsValid()) {
		port = devices.AnyPort
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
