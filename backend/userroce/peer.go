// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// peer is a remote queue pair, as seen from one send socket. It doesn't change, but for its place among sources.
type peer struct {
	next    atomic.Pointer[peer] // in its chain of sources
	ip      ipKey
	addr    netip.Addr
	port    uint16
	qpn     uint32
	local   bool // it is on this host
	foreign bool // it is another implementation, which doesn't compute the ICRC over identification 0
	ect     bool // data to it is ECN-capable
	trims   bool // data to it may be trimmed
	tos     int32
	bareTOS int32 // TOS of writes without payload, which are as short as what a switch leaves of others
	nameLen uint32
	name    sockName
	flow    roce.Flow   // ICRC of packets to it
	flows   []roce.Flow // ICRC of datagrams to it, for each send socket
}

// newPeer checks a peer's information and prepares what sending to it needs.
func (d *Device) newPeer(i backend.QPInfo, s *sender) (*peer, error) {
	a := i.Addr.Unmap()
	switch {
	case !a.IsValid() || a.Is6() != d.ipv6:
		return nil, &operr.Error{Op: "connect", Object: "userroce", Err: fmt.Errorf("peer address %v and own address %v", i.Addr, d.addr),
			Fix: "both must be IPv4 or both IPv6: choose such an address at either end"}
	case a.IsUnspecified() || a.IsMulticast():
		return nil, operr.New("connect", "userroce", "peer address %v is not that of one host", a)
	case a.Is6() && a.IsLinkLocalUnicast() && d.scope == 0:
		return nil, operr.New("connect", "userroce", "peer address %v is link-local, and own address %v says not on which interface: open both ends with such an address, as in fe80::1%%eth0", a, d.addr)
	case i.QPN < minQPN || i.QPN >= multicastQPN:
		return nil, operr.New("connect", "userroce", "peer's queue pair number %#x is not one of a UC or UD queue pair", i.QPN)
	}
	port := cmp.Or(i.Port, uint16(roce.UDPPort))
	p := &peer{ip: keyOf(a), addr: a, port: port, qpn: i.QPN, foreign: i.Flags&backend.FlagICRCZeroID == 0}
	p.ect = d.cfg.ECN && i.Flags&backend.FlagCNP != 0
	p.trims = d.cfg.Trim && i.Flags&backend.FlagTrim != 0
	p.tos = d.dataTOS(p.ect, p.trims)
	p.bareTOS = p.tos
	if p.trims && d.cfg.TrimDSCP == 0 {
		p.bareTOS = d.headerTOS()
	}
	p.nameLen = p.name.put(a, port, d.scope)
	flow, err := roce.NewFlow(netip.AddrPortFrom(d.addr, s.port), netip.AddrPortFrom(a, port))
	if err != nil {
		return nil, operr.Wrap("connect", "userroce", err)
	}
	p.flow = flow
	return p, nil
}

// tosOf is the TOS of a packet of size wire bytes, marked or not: no queue marks what isn't ECN-capable.
func (p *peer) tosOf(size int, marked bool) int32 {
	tos := p.tos
	if size == roce.UCWriteImmOverhead {
		tos = p.bareTOS
	}
	if marked && p.ect && tos&ecnMask == ecnECT0 {
		tos |= ecnCE
	}
	return tos
}

// endpoint is where packets for p go, in a form that compares fast.
func (p *peer) endpoint() endpoint { return endpoint{p.ip, p.port} }

// to returns where packets for p go.
func (p *peer) to() netip.AddrPort { return netip.AddrPortFrom(p.addr, p.port) }

// trains reports whether packets to p may be segmented by the kernel, which on IPv4 numbers the
// identification.
func (p *peer) trains(d *Device, now units.Instant) bool {
	return (!p.foreign || d.ipv6) && d.gso.usable(now)
}

// checkPath makes sure that packets with MTU mtu fit the path to a, as far as this host knows, and says whether a is on this host. d.mu
// is held.
func (d *Device) checkPath(a netip.Addr, mtu units.Bytes) (local bool, err error) {
	now := d.Now()
	if r, known := d.routes[a]; known && mtu <= r.mtu && now.Sub(r.at) < routeAge {
		return r.local, nil
	}
	r, err := routeTo(d.addr, a, d.scope)
	if err != nil {
		return false, err
	}
	if r.mtu != 0 {
		if err := checkMTU("connect", mtu, r.mtu, d.ipv6, fmt.Sprintf("the route to %v", a)); err != nil {
			return false, err
		}
	}
	if len(d.routes) == maxRoutes {
		clear(d.routes) // those that are still in use are soon found again
	}
	d.routes[a] = route{mtu, r.local, now}
	return r.local, nil
}

// maxRoutes bounds the paths that a device remembers: any number of peers may come, and each says by itself what its address is.
const maxRoutes = 1024

// routeAge is how long it remembers them, which is for the queue pairs of one connection: a device may be older than the route that there is now.
const routeAge = units.Second

// maxHandles bounds the address handles of a device.
const maxHandles = 1 << 16

// OpenAddress makes a handle for datagrams to the UD queue pair i. Datagrams leave from the first send
// socket whatever their queue pair's channel, but for those that writes take along.
func (d *Device) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, backend.ErrClosed
	}
	p, err := d.newPeer(i, d.senders[0])
	if err != nil {
		return 0, err
	}
	p.tos = d.controlTOS()
	if p.trims && d.cfg.TrimDSCP == 0 {
		// A switch that trims drops what it can't cut. Datagrams are few, and go with the headers.
		p.tos |= tagHO
	}
	p.ect, p.trims, p.bareTOS = false, false, p.tos
	for _, s := range d.senders {
		f, err := roce.NewFlow(netip.AddrPortFrom(d.addr, s.port), p.to())
		if err != nil {
			return 0, operr.Wrap("connect", "userroce", err)
		}
		p.flows = append(p.flows, f)
	}
	if p.foreign {
		d.senders[0].prefer(p)
	}
	h := d.peers.Free()
	if h == maxHandles {
		return 0, operr.New("connect", "userroce", "all %d address handles are in use", maxHandles)
	}
	d.peers.Set(h, p)
	d.addSource(p)
	return backend.AddressHandle(h), nil
}

// handle returns the peer that h stands for, or nil.
func (d *Device) handle(h backend.AddressHandle) *peer { return d.peers.Get(uint32(h)) }

// CloseAddress releases a handle.
func (d *Device) CloseAddress(h backend.AddressHandle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.handle(h)
	if p == nil {
		return operr.New("close address", "userroce", "no such handle")
	}
	d.peers.Set(uint32(h), nil)
	d.removeSource(p)
	return nil
}

// sources finds the peers of address handles by where their datagrams come from, so that a packet with a wrong ICRC, which anybody can
// send, isn't held against all there are. It is read without a lock, and changed while Device.mu is held.
type sources [1 << sourceBits]atomic.Pointer[peer]

const sourceBits = 10

// source is the chain that peers with an address and a queue pair number are in, among others; where the address says nothing, with a number.
func (d *Device) source(ip ipKey, qpn uint32) *atomic.Pointer[peer] {
	hash := qpn
	if !d.cfg.AllowAnySource {
		hash = hash*0x85ebca6b + uint32(ip.lo)
	}
	return &d.sources[hash*0x9e3779b1>>(32-sourceBits)]
}

// addSource adds p to the sources, if it is a peer that a wrong ICRC may be excused. d.mu is held.
func (d *Device) addSource(p *peer) {
	if d.cfg.AllowAnySource || p.foreign && !d.ipv6 {
		first := d.source(p.ip, p.qpn)
		p.next.Store(first.Load())
		first.Store(p)
	}
}

// removeSource takes p out, if it is in. A reader that has come to p still gets to those behind it. d.mu is held.
func (d *Device) removeSource(p *peer) {
	for at := d.source(p.ip, p.qpn); at.Load() != nil; at = &at.Load().next {
		if at.Load() == p {
			at.Store(p.next.Load())
			return
		}
	}
}
