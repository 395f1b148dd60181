// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// An end is which of the two this one is.
type end int

const (
	receiving end = iota
	sending
)

func (e end) peer() string {
	if e == sending {
		return "server"
	}
	return "client"
}

// An endpoint is the device and the context of one end, for all points of a run.
type endpoint struct {
	end   end
	local *local
	dev   backend.Device
	ctx   *sdr.Context // nil until start
}

// openEndpoint opens the device.
func (l *local) openEndpoint(e end, addr netip.Addr, port uint16, capture *capture) (*endpoint, error) {
	dev, err := devices.Open(l.device, devices.Options{
		Addr: addr, UDPPort: port, Workers: l.workers, Wire: capture.wire(), Logger: l.log,
	})
	if err != nil {
		return nil, err
	}
	return &endpoint{end: e, local: l, dev: dev}, nil
}

// start puts the device behind the emulated link and makes the context. The device must be known to
// fit before, because a link that doesn't fit is the client's mistake.
func (e *endpoint) start(p *params) error {
	if e.ctx != nil {
		return nil
	}
	if p.Link.emulated() {
		dev, err := linkemu.Wrap(e.dev, p.Link.config(2*p.Seed+uint64(e.end)))
		if err != nil {
			return err
		}
		e.dev = dev
	}
	var err error
	e.ctx, err = sdr.NewContext(e.dev, sdr.ContextConfig{Workers: e.local.workers, Logger: e.local.log})
	return err
}

// close closes context and device.
func (e *endpoint) close() {
	if e.ctx != nil {
		_ = e.ctx.Close()
	}
	_ = e.dev.Close()
}

// rdmaAddr is the address and UDP port for RDMA packets: by default the address that the TCP
// connection ends at here.
func (l *local) rdmaAddr(s *oob.Conn, e end) (netip.Addr, uint16, error) {
	port, err := l.rdmaPort()
	if err != nil || l.addr.IsValid() {
		return l.addr, port, err
	}
	addr := ipOf(s.LocalAddr())
	if e == sending && addr == ipOf(s.RemoteAddr()) {
		addr, port = secondEnd(addr, port)
	}
	return addr, port, nil
}

// secondEnd is where the second end on one host is: two can't share both address and UDP port.
func secondEnd(first netip.Addr, port uint16) (netip.Addr, uint16) {
	if first.Is4() && first.IsLoopback() {
		return first.Next(), port // all of 127/8 is this host
	}
	return first, devices.AnyPort
}

func ipOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }
