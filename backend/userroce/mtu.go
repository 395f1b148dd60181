// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// An iface is the network interface that a device sends through.
type iface struct {
	name string
	mtu  units.Bytes
}

// interfaceOf finds the interface that owns a.
func interfaceOf(a netip.Addr) (iface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return iface{}, noInterfaces(err)
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just been removed
		}
		for _, x := range addrs {
			p, err := netip.ParsePrefix(x.String())
			if err != nil {
				continue
			}
			// All of a loopback prefix is local: 127.0.0.2 is in nobody's list.
			own := p.Addr().Unmap() == a.WithZone("") || i.Flags&net.FlagLoopback != 0 && p.Contains(a.WithZone(""))
			if own && (a.Zone() == "" || a.Zone() == i.Name || a.Zone() == fmt.Sprint(i.Index)) {
				return iface{i.Name, units.Bytes(i.MTU)}, nil
			}
		}
	}
	return iface{}, notOurs(a)
}

// notOurs is the error of an address that no interface of this host has.
func notOurs(a netip.Addr) error {
	e := &operr.Error{Op: "open", Object: "userroce", Err: fmt.Errorf("%v is not an address of this host", a), Fix: "see ip addr"}
	if a.Is4() && a.IsLoopback() { // as in a network namespace that was just made
		e.Fix = "ip link set lo up"
	}
	return e
}

// noInterfaces is the error of a list of interfaces that the kernel didn't give.
func noInterfaces(err error) error {
	const what = "list the network interfaces"
	for _, refused := range []error{unix.EAFNOSUPPORT, unix.EPERM, unix.EACCES} {
		if errors.Is(err, refused) {
			return &operr.Error{Op: "open", Object: "userroce", Err: fmt.Errorf("%s: %w", what, err),
				Fix: "something keeps this process from AF_NETLINK sockets: allow them, in a systemd unit by RestrictAddressFamilies"}
		}
	}
	return noDescriptor(what, err)
}

// An MTUError says that a path MTU doesn't fit the path to the peer.
type MTUError struct {
	// MTU is what was asked for, in bytes of payload.
	MTU units.Bytes
	// Where is the interface or the peer, Limit the largest IP packet there, Need the size of the
	// largest packet with that MTU.
	Where       string
	Limit, Need units.Bytes
	// Fits is the largest MTU that fits, or 0.
	Fits units.Bytes
}

// Error names both sizes and what to do.
func (e *MTUError) Error() string {
	fix := fmt.Sprintf("use MTU %d or raise the interface's", int64(e.Fits))
	if e.Fits == 0 {
		fix = "raise the interface's MTU"
	}
	return fmt.Sprintf("MTU %d needs IP packets of %d bytes, and %s has MTU %d: %s",
		int64(e.MTU), int64(e.Need), e.Where, int64(e.Limit), fix)
}

// Unwrap returns EMSGSIZE.
func (e *MTUError) Unwrap() error { return unix.EMSGSIZE }

// checkMTU returns an MTUError, of the operation op, when packets with payload mtu exceed limit.
func checkMTU(op string, mtu, limit units.Bytes, ipv6 bool, where string) error {
	m, err := roce.MTUOf(mtu)
	if err != nil {
		return operr.Wrap(op, "userroce", err)
	}
	if need := m.InterfaceMTU(ipv6); need > limit {
		fits, _ := roce.LargestMTU(limit, ipv6)
		return operr.Wrap(op, "userroce", &MTUError{mtu, where, limit, need, fits.Bytes()})
	}
	return nil
}

// A route is what this host knows of the path to a peer.
type route struct {
	// mtu is the largest IP packet on it, as the administrator has set it: the MTU of the interface, and that of the route
	// if it has one. What path MTU discovery has found out is left aside, because anybody can make it up. 0 means that it isn't known.
	mtu units.Bytes
	// local: the peer is on this host.
	local bool
	// at is when it was looked up.
	at units.Instant
}

// routeTo looks up the path to a peer.
func routeTo(from, to netip.Addr, scope uint32) (found route, err error) {
	if err := checkRoute(from, to, scope); err != nil {
		return route{}, err
	}
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{
		SrcAddr: from.AsSlice(), OifIndex: int(scope), FIBMatch: true,
	})
	if err != nil {
		return route{}, nil
	}
	narrow := func(mtu int) {
		if mtu > 0 && (found.mtu == 0 || units.Bytes(mtu) < found.mtu) {
			found.mtu = units.Bytes(mtu)
		}
	}
	for _, r := range routes {
		if r.Type == unix.RTN_LOCAL {
			found.local = true
			continue // a local route: it names the address's interface, but the packets stay on this host
		}
		narrow(r.MTU)
		narrow(linkMTU(r.LinkIndex))
		for _, hop := range r.MultiPath {
			narrow(linkMTU(hop.LinkIndex))
		}
	}
	return found, nil
}

// checkRoute makes sure that there is a route.
func checkRoute(from, to netip.Addr, scope uint32) error {
	fd, err := newSocket(from.Is6())
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := bind(fd, from, 0, scope); err != nil {
		return err
	}
	if err := unix.Connect(fd, sockaddr(to, roce.UDPPort, scope)); err != nil {
		return operr.New("connect", "userroce", "no route from %v to %v: %w", from, to, err)
	}
	return nil
}

// linkMTU returns the MTU of an interface, or 0 when it isn't known.
func linkMTU(index int) int {
	if index == 0 {
		return 0
	}
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return 0
	}
	return i.MTU
}

// PathMTU is the largest MTU of a queue pair whose packets fit the device's interface as it is now: Caps().PathMTU, or less if the
// interface's MTU was lowered since Open. What exceeds it is lost.
func (d *Device) PathMTU() units.Bytes {
	if now, err := interfaceOf(d.addr); err == nil {
		if m, ok := roce.LargestMTU(min(now.mtu, d.iface.mtu), d.ipv6); ok {
			return m.Bytes()
		}
	}
	return d.caps.PathMTU
}
