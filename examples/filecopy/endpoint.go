// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An endpoint is everything that one end has open.
type endpoint struct {
	dev  backend.Device
	ctx  *sdr.Endpoint
	conn *reliability.Conn
}

// An ownError is one of this end, which it would have with any peer.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// A hasty session doesn't wait long for a peer that has nothing to do but answer.
type hasty struct{ *oob.Conn }

func (h hasty) Exchange(ctx context.Context, blob []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	return h.Conn.Exchange(ctx, blob)
}

// exchangeTime is how long a peer may take to open its device and introduce itself.
const exchangeTime = 5 * time.Second

// A role says which end of the TCP connection this is.
type role uint64

const (
	receiver role = iota
	sender
)

// connect opens a device and connects it to the peer at the other end of s, which it owns from now
// on: it tells the peer when it fails.
func connect(ctx context.Context, o *options, s *oob.Conn, r role) (*endpoint, error) {
	e := &endpoint{}
	err := e.open(o, s, r)
	if err != nil && o.addr.IsValid() {
		err = ownError{err}
	}
	if err == nil {
		var session reliability.Session = s
		if r == receiver { // which has others to wait for
			session = hasty{s}
		}
		err = e.conn.ConnectOver(ctx, session)
	}
	if err != nil {
		_ = s.CloseWithReason(err.Error())
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *endpoint) open(o *options, s *oob.Conn, r role) (err error) {
	addr, port := o.rdmaAddr(s, r)
	raw, err := userroce.Open(userroce.Config{Addr: addr, Port: port})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (here: --udp-port any, or --addr)", err)
	}
	if err != nil {
		return err
	}
	e.dev = raw
	if o.emulated() {
		link := o.link
		link.Seed = 2*link.Seed + uint64(r) // so that the directions differ
		if e.dev, err = linkemu.Wrap(raw, link); err != nil {
			return err
		}
	}
	if e.ctx, err = sdr.NewEndpoint(e.dev, sdr.EndpointConfig{}); err != nil {
		return err
	}
	return e.newConn(o)
}

// newConn makes the connection, paced to what an emulated link leaves for user data.
func (e *endpoint) newConn(o *options) error {
	s, err := schemes[o.scheme]()
	if err != nil {
		return err
	}
	caps := e.dev.Caps()
	mtu := caps.PathMTU
	q := sdr.QPConfig{Silence: o.silence, SendDepth: max(1024, o.link.PacketsUnderWay(mtu))}
	e.conn, err = reliability.NewConn(e.ctx, q, reliability.Config{
		Scheme: s, NoProgress: o.silence,
		Rate: userRate(o.link.Rate, mtu, caps.HeaderBytes),
	})
	return err
}

// rdmaAddr is the address and UDP port for RDMA packets: by default the address that the TCP
// connection ends at here.
func (o *options) rdmaAddr(s *oob.Conn, r role) (netip.Addr, uint16) {
	if o.addr.IsValid() {
		return o.addr, o.port
	}
	local := ipOf(s.LocalAddr())
	if r == sender && local == ipOf(s.RemoteAddr()) {
		return secondEnd(local, o.port)
	}
	return local, o.port
}

// secondEnd is where the second end on one host is: two can't share both address and UDP port.
func secondEnd(first netip.Addr, port uint16) (netip.Addr, uint16) {
	if first.Is4() && first.IsLoopback() {
		return first.Next(), port // all of 127/8 is this host
	}
	return first, userroce.AnyPort
}

func ipOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }

// close closes what is open, from the top down.
func (e *endpoint) close() {
	if e.conn != nil {
		_ = e.conn.Close()
	}
	if e.ctx != nil {
		_ = e.ctx.Close()
	}
	if e.dev != nil {
		_ = e.dev.Close()
	}
}

// userRate is what a link of rate wire carries of user data: each packet has headers too.
func userRate(wire units.Rate, mtu, header units.Bytes) units.Rate {
	return units.RateOf(mtu, wire.Time(mtu+header))
}
