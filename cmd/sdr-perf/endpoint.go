// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
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
	end     end
	local   *local
	at      place
	capture *capture
	link    link      // the emulated link, once there is one …
	begun   time.Time // … and when it began

	mu  sync.Mutex     // guards own against visitors
	own backend.Device // the device itself
	dev backend.Device // with the emulated link before it, once there is one
	ctx *sdr.Endpoint  // nil until start
}

// A place is where an end sends and receives RDMA packets.
type place struct {
	addr netip.Addr // what the user wants, if valid
	near netip.Addr // else this, if the device has it
	port uint16     // UDP
}

// openEndpoint opens the device.
func (l *local) openEndpoint(e end, at place, capture *capture) (*endpoint, error) {
	o := devices.Options{
		Addr: at.addr, Near: at.near, UDPPort: at.port, Port: l.ibPort, Workers: l.workers, ECN: l.ecn, DSCP: l.dscp,
		Trim: l.trim, TrimDSCP: l.trimDSCP,
		Wire: capture.wire(), Logger: l.below,
	}
	if l.gidIndex.given {
		o.GIDIndex = &l.gidIndex.n
	}
	dev, err := devices.Open(l.device, o)
	if err != nil {
		return nil, err
	}
	return &endpoint{end: e, local: l, at: at, capture: capture, own: dev, dev: dev}, nil
}

// start puts the device behind the emulated link and makes the context. The device must be known to
// fit before, because a link that doesn't fit is the client's mistake. For another link than before it
// begins anew, and for each point where paths die.
func (e *endpoint) start(p *params) error {
	if e.ctx != nil {
		if e.link == p.Link && !p.Link.Paths.dies() {
			return nil
		}
		if err := e.reopen(); err != nil {
			return err
		}
	}
	if p.Link.MarkAbove > 0 && !e.own.Caps().ECN {
		return usage.Errorf("--mark-above: this end's packets can't carry marks: give --ecn, too, at both ends (on userroce)")
	}
	e.link, e.begun = p.Link, time.Now()
	if p.Link.emulated() {
		dev, err := linkemu.Wrap(e.dev, p.Link.config(2*p.Seed+uint64(e.end)))
		if err != nil {
			return err
		}
		e.dev = dev
	}
	var err error
	e.ctx, err = sdr.NewEndpoint(e.dev, sdr.EndpointConfig{Workers: e.local.workers, Spin: e.local.spin, Logger: e.local.below})
	return err
}

// reopen closes the device and opens it again.
func (e *endpoint) reopen() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.close()
	fresh, err := e.local.openEndpoint(e.end, e.at, e.capture)
	if err == nil {
		e.own, e.dev, e.ctx = fresh.own, fresh.dev, nil
	}
	return err
}

// pathMTU is the largest payload that the device's interface carries.
func (e *endpoint) pathMTU() units.Bytes {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.own.Caps().PathMTU
}

// checkMTU says what to do when the device can't carry an MTU.
func (e *endpoint) checkMTU(mtu units.Bytes) error {
	if err := devices.CheckMTU(e.local.device, e.own, mtu); err != nil {
		return usage.Errorf("--mtu: %w", err)
	}
	return nil
}

// close closes context and device.
func (e *endpoint) close() {
	if e.ctx != nil {
		_ = e.ctx.Close()
	}
	_ = e.dev.Close()
}

// place is where this end is: unless the user says otherwise, at the address that the TCP connection
// ends at here.
func (l *local) place(s *oob.Conn, e end) (place, error) {
	port, err := l.rdmaPort()
	if err != nil || l.addr.IsValid() {
		return place{addr: l.addr, port: port}, err
	}
	addr := ipOf(s.LocalAddr())
	if e == sending && addr == ipOf(s.RemoteAddr()) && !devices.Kernels(l.device) {
		addr, port = secondEnd(addr, port)
	}
	return place{near: addr, port: port}, nil
}

// secondEnd is where the second end on one host is: two can't share both address and UDP port.
func secondEnd(first netip.Addr, port uint16) (netip.Addr, uint16) {
	if first.Is4() && first.IsLoopback() {
		return first.Next(), port // all of 127/8 is this host
	}
	return first, devices.AnyPort
}

func ipOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }
