// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A host is a device and the endpoint on it, with which connections are made.
type host struct {
	dev      backend.Device
	endpoint *sdr.Endpoint
	// port is the UDP port that packets arrive at, 4791 on devices of the kernel.
	port uint16
	// users are the connections that are on it or being made. left: it is not among its hosts any more, and the last of them closes it. Both are
	// guarded by hosts.mu.
	users int
	left  bool
	// user is the device below dev if it is user-space RoCEv2.
	user *userroce.Device
	// index is the number of the interface that user's address is on, if that is a link-local one.
	index int
}

// works reports whether there can be new connections: the device has not failed, nor is the interface of its link-local address another than
// the one that its sockets send through, as one that was removed and made again is.
func (h *host) works() bool {
	return h.endpoint.Err() == nil && (h.user == nil || h.index == indexOf(h.user.Addr().Addr()))
}

// indexOf is the number that the interface has that is named in a link-local address, 0 for other addresses and if there is none.
func indexOf(a netip.Addr) int {
	i, err := net.InterfaceByName(a.Zone())
	if err != nil {
		return 0
	}
	return i.Index
}

// mtu is the largest MTU of a connection. A Listener's device may be older than the MTU that its interface has now.
func (h *host) mtu() units.Bytes {
	mtu := h.endpoint.Caps().PathMTU
	if h.user != nil {
		mtu = min(mtu, h.user.PathMTU())
	}
	return mtu
}

// openHost opens cfg's device with an address near the one that a TCP connection ends at. ports are
// tried in order on user-space RoCEv2, while they are taken.
func openHost(cfg *Config, near netip.Addr, ports ...uint16) (*host, error) {
	h := &host{port: roce.UDPPort}
	var err error
	if cfg.Device != "" {
		h.dev, err = openKernels(cfg, near)
	} else {
		err = h.openUserRoCE(cfg, near, ports)
	}
	if err != nil {
		return nil, err
	}
	if !cfg.Link.ChangesNothing() {
		wrapped, err := linkemu.Wrap(h.dev, cfg.Link)
		if err != nil {
			_ = h.dev.Close()
			return nil, err
		}
		h.dev = wrapped
	}
	if h.endpoint, err = sdr.NewEndpoint(h.dev, sdr.EndpointConfig{Workers: workers(), Logger: cfg.Logger}); err != nil {
		_ = h.dev.Close()
		return nil, err
	}
	return h, nil
}

// workers is how many goroutines poll: the default of sdr.EndpointConfig, which the device's receive
// sockets follow.
func workers() int { return min(sdr.DefaultWorkers(), userroce.MaxWorkers) }

func (h *host) openUserRoCE(cfg *Config, near netip.Addr, ports []uint16) error {
	c := userroce.Config{Addr: near, Workers: workers(), ECN: cfg.Link.MarkAbove > 0, Logger: cfg.Logger}
	if cfg.Addr.IsValid() {
		c.Addr = cfg.Addr
	}
	if cfg.UDPPort != 0 {
		ports = []uint16{cfg.UDPPort}
	}
	var err error
	for _, c.Port = range ports {
		d, openErr := userroce.Open(c)
		if openErr == nil {
			h.dev, h.user, h.port, h.index = d, d, d.Addr().Port(), indexOf(c.Addr)
			return nil
		}
		err = openErr
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}

// openKernels takes the near address if the device has it, and lets it choose if not.
func openKernels(cfg *Config, near netip.Addr) (backend.Device, error) {
	name, reliable := strings.CutPrefix(cfg.Device, rc.Prefix)
	open := uc.Open
	if reliable {
		open = rc.Open
	}
	c := uc.Config{Device: name, Addr: cfg.Addr, Logger: cfg.Logger}
	if !c.Addr.IsValid() {
		c.Addr = near
	}
	d, err := open(c)
	if errors.Is(err, uc.ErrNotReady) && !cfg.Addr.IsValid() {
		c.Addr = netip.Addr{}
		d, err = open(c)
	}
	if err != nil {
		return nil, err // not d, a nil *uc.Device, which would be an interface that isn't nil
	}
	return d, nil
}

// close closes both; the first error is the one to report.
func (h *host) close() error {
	return cmp.Or(h.endpoint.Close(), h.dev.Close())
}

// ipOf is the IP address, without port, of an end of a TCP connection.
func ipOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }
