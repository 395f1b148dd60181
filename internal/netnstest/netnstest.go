// SPDX-License-Identifier: Apache-2.0

// Package netnstest makes two emulated hosts for tests: network namespaces without a name, joined by a
// cable (a veth pair). They end with the test. Again gives a test namespaces of its own.
package netnstest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// A Host is a network namespace with one end of the cable.
type Host struct {
	t  testing.TB
	ns *os.File
	// V4 and V6 are the addresses of Link, each in a network with the other host's.
	V4, V6 netip.Addr
	// Link is the name of this end of the cable.
	Link string

	// The other host.
	peers     []netip.Addr
	neighbour net.HardwareAddr
}

// Pair makes two hosts with a cable that carries IP packets of mtu bytes. The test is skipped without the
// right to make network namespaces.
func Pair(t testing.TB, mtu int) (a, b *Host) {
	t.Helper()
	a, b = newHost(t, "192.0.2.1", "fd00::1"), newHost(t, "192.0.2.2", "fd00::2")
	a.Do(func() {
		err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: a.Link, MTU: mtu}, PeerName: b.Link, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(b.ns.Fd()),
		})
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("this kernel has no veth interfaces")
		}
		require.NoError(t, err)
	})
	a.setUp(b)
	b.setUp(a)
	a.awaitReady()
	b.awaitReady()
	return a, b
}

// awaitReady waits until the interface passes packets and the host knows its addresses as its own. The kernel
// looks at new interfaces once a second at most when there are many, and drops what is sent before; it takes
// in an IPv6 address in the background (addrconf_dad_work), one host after another, and drops what comes
// for it before.
func (h *Host) awaitReady() {
	h.t.Helper()
	for start := time.Now(); !h.ready(); time.Sleep(time.Millisecond) {
		require.Less(h.t, time.Since(start), 10*time.Second, "%s did not come up", h.Link)
	}
}

func (h *Host) ready() (ready bool) {
	ready = h.link().Attrs().OperState == netlink.OperUp
	h.Do(func() {
		for _, own := range []netip.Addr{h.V4, h.V6} {
			routes, err := netlink.RouteGet(own.AsSlice())
			ready = ready && err == nil && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL
		}
	})
	return ready
}

func newHost(t testing.TB, v4, v6 string) *Host {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skipf("making a network namespace needs root (CAP_SYS_ADMIN): %v", err)
	} else {
		require.NoError(t, err)
	}
	defer enter(home)
	h := &Host{t: t, V4: netip.MustParseAddr(v4), V6: netip.MustParseAddr(v6), Link: "wire0"}
	h.ns, err = os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	t.Cleanup(func() { h.ns.Close() })
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	return h
}

// enter moves the calling thread. A thread that can't come home must not go on.
func enter(ns *os.File) {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err)
	}
}

// setUp gives the host's interface its addresses, and the neighbour's, so that nobody has to ask.
func (h *Host) setUp(other *Host) {
	h.t.Helper()
	h.peers, h.neighbour = []netip.Addr{other.V4, other.V6}, other.link().Attrs().HardwareAddr
	h.Do(func() {
		link, err := netlink.LinkByName(h.Link)
		require.NoError(h.t, err)
		for _, a := range []struct {
			own         netip.Addr
			bits, flags int
		}{{h.V4, 24, 0}, {h.V6, 64, unix.IFA_F_NODAD}} {
			ip := &net.IPNet{IP: a.own.AsSlice(), Mask: net.CIDRMask(a.bits, a.own.BitLen())}
			require.NoError(h.t, netlink.AddrAdd(link, &netlink.Addr{IPNet: ip, Flags: a.flags}))
		}
		require.NoError(h.t, netlink.LinkSetUp(link))
	})
	h.setNeighbours(h.neighbour)
}

// setNeighbours says where packets for the other host go on the cable.
func (h *Host) setNeighbours(to net.HardwareAddr) {
	h.t.Helper()
	link := h.link()
	h.Do(func() {
		for _, ip := range h.peers {
			require.NoError(h.t, netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: to,
			}))
		}
	})
}

func (h *Host) link() (link netlink.Link) {
	h.t.Helper()
	h.Do(func() {
		var err error
		link, err = netlink.LinkByName(h.Link)
		require.NoError(h.t, err)
	})
	return link
}

// Do runs f on the host. Sockets that f opens stay there; goroutines that f starts don't.
func (h *Host) Do(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(h.t, err)
	defer home.Close()
	enter(h.ns)
	defer enter(home)
	f()
}

// SetMTU changes the MTU of the host's end of the cable.
func (h *Host) SetMTU(mtu int) {
	h.t.Helper()
	link := h.link()
	h.Do(func() { require.NoError(h.t, netlink.LinkSetMTU(link, mtu)) })
}

// Cut makes what the host sends to the other one vanish on the way, until the returned function is called.
func (h *Host) Cut() (heal func()) {
	h.t.Helper()
	h.setNeighbours(net.HardwareAddr{2, 0, 0, 0, 0, 99}) // nobody's
	return func() {
		h.t.Helper()
		h.setNeighbours(h.neighbour)
	}
}

// Blackhole makes the host drop what it sends to a, until the returned function is called.
func (h *Host) Blackhole(a netip.Addr) (heal func()) {
	h.t.Helper()
	route := &netlink.Route{
		Dst:  &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())},
		Type: unix.RTN_BLACKHOLE,
	}
	h.Do(func() { require.NoError(h.t, netlink.RouteAdd(route)) })
	return func() { h.Do(func() { require.NoError(h.t, netlink.RouteDel(route)) }) }
}

// Send sends an IP packet with all its headers, whatever they say, to whom they say.
func (h *Host) Send(packet []byte) {
	h.t.Helper()
	family := unix.AF_INET
	var to unix.Sockaddr
	if packet[0]>>4 == 6 {
		family = unix.AF_INET6
		to = &unix.SockaddrInet6{Addr: [16]byte(packet[24:40])}
	} else {
		to = &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}
	}
	h.Do(func() {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		require.NoError(h.t, err)
		defer unix.Close(fd)
		require.NoError(h.t, unix.Sendto(fd, packet, 0, to))
	})
}
