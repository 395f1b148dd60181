// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/units"
)

// requireNamespace runs the calling test again in a process with a network namespace of its own, whose loopback is up, and returns true there.
func requireNamespace(t *testing.T) bool {
	if !netnstest.Again(t, unix.CLONE_NEWNET) {
		return false
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	return true
}

// addInterface makes an interface whose packets go nowhere, with both kinds of addresses and neighbours
// with the number 9.
func addInterface(t *testing.T, name string, mtu int) netlink.Link {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}, PeerName: "nowhere0"}
	if err := netlink.LinkAdd(link); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no veth interfaces")
	} else {
		require.NoError(t, err)
	}
	other, err := netlink.LinkByName(link.PeerName)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(other))
	require.NoError(t, netlink.LinkSetUp(link))
	for _, s := range []string{"192.0.2.1/24", "fd00::1/64"} {
		a, err := netlink.ParseAddr(s)
		require.NoError(t, err)
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		require.NoError(t, netlink.AddrAdd(link, a))
	}
	for _, s := range []string{"192.0.2.9", "fd00::9"} {
		require.NoError(t, netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(s), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9},
		}))
	}
	return link
}

// TestLinkLocal: two devices with link-local addresses at the two ends of a cable.
func TestLinkLocal(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	link := addInterface(t, "wire0", 4200)
	other, err := netlink.LinkByName("nowhere0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(other, 4200))
	for l, s := range map[netlink.Link]string{link: "fe80::a/64", other: "fe80::b/64"} {
		a, err := netlink.ParseAddr(s)
		require.NoError(t, err)
		a.Flags = unix.IFA_F_NODAD
		require.NoError(t, netlink.AddrAdd(l, a))
	}
	a, b := newPair(t, false, func(a, b *sideConfig) {
		a.Addr, b.Addr = netip.MustParseAddr("fe80::a%wire0"), netip.MustParseAddr("fe80::b%nowhere0")
	})
	require.EqualValues(t, 4096, a.d.Caps().PathMTU)
	testDelivery(t, a, b, 4096)
	require.NotZero(t, b.d.WireStats().RecvTrains)
}

// TestRealMTU: the interface's MTU bounds a queue pair's, also when it shrinks later, and what the
// network refuses is lost.
func TestRealMTU(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	link := addInterface(t, "wire0", 3000)
	for _, x := range []struct{ own, peer, nowhere string }{{"192.0.2.1", "192.0.2.9", "198.51.100.1"}, {"fd00::1", "fd00::9", "fd01::1"}} {
		require.NoError(t, netlink.LinkSetMTU(link, 3000))
		c := testConfig(t, false)
		c.Addr = netip.MustParseAddr(x.own)
		e := newSide(t, sideConfig{Config: c, mtu: 2048})
		require.EqualValues(t, 2048, e.d.Caps().PathMTU)
		_, err := e.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, MTU: 4096})
		var mtuError *MTUError
		require.True(t, errors.As(err, &mtuError))
		require.EqualValues(t, 4096+int(e.d.caps.HeaderBytes), mtuError.Need)
		require.ErrorContains(t, err, "interface wire0 has MTU 3000: use MTU 2048 or raise the interface's")

		require.ErrorContains(t, e.qp.Connect(backend.QPInfo{Addr: netip.MustParseAddr(x.nowhere), QPN: 2}), "no route from "+x.own)
		peer := backend.QPInfo{Addr: netip.MustParseAddr(x.peer), QPN: 2, Flags: backend.FlagICRCZeroID}
		require.NoError(t, e.qp.Connect(peer))
		w := e.message(1, 0, 20*2048, 2048)
		e.post(w...)
		require.EqualValues(t, 20, e.d.Stats().PacketsSent)

		require.NoError(t, netlink.LinkSetMTU(link, 1500))
		for _, n := range []int{1, 20} {
			k, err := e.qp.PostWrites(0, w[:n])
			require.NoError(t, err)
			require.Equal(t, n, k, "what is too large is lost")
		}
		require.EqualValues(t, 21, e.d.WireStats().TooLarge)
		require.EqualValues(t, 20+21, e.d.Stats().PacketsSent, "what is lost was sent")
		k, err := e.qp.PostWrites(0, e.message(1, 0, 1000, 1000))
		require.NoError(t, err)
		require.Equal(t, 1, k, "small ones still fit")

		down, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index}, netlink.RT_FILTER_OIF)
		require.NoError(t, err)
		for _, r := range down {
			require.NoError(t, netlink.RouteDel(&r))
		}
		k, err = e.qp.PostWrites(0, []backend.Write{{}, {}, {}})
		require.NoError(t, err)
		require.Equal(t, 3, k, "a network that is away loses packets")
		require.EqualValues(t, 3, e.d.WireStats().NetworkErrors)
		qp := e.qp.(*queuePair)
		require.False(t, qp.sendCNP(qp.peer.Load()))
		require.EqualValues(t, 4, e.d.WireStats().NetworkErrors, "of what the device sends by itself, too")
		require.EqualValues(t, 20+21+1+4, e.d.Stats().PacketsSent)
		require.Empty(t, drops(e.d))
		for _, r := range down {
			if r.Scope != netlink.SCOPE_HOST && r.Type != unix.RTN_LOCAL {
				netlink.RouteAdd(&r)
			}
		}
		require.NoError(t, e.d.Close())
	}
}

// TestInterfaceTooSmall: a device that could have no queue pair doesn't open, and says why.
func TestInterfaceTooSmall(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(lo, 319))
	_, err = Open(testConfig(t, false))
	require.ErrorContains(t, err, "open userroce: MTU 256 needs IP packets of 320 bytes, and interface lo has MTU 319: raise the interface's MTU")
	require.NoError(t, netlink.LinkSetMTU(lo, 320))
	require.EqualValues(t, 256, openTest(t, testConfig(t, false)).Caps().PathMTU)
}

// TestIPv4ID looks at what leaves for a peer that is not userroce: whole datagrams with identification
// 0 and don't-fragment, so that the ICRC over identification 0 is right.
func TestIPv4ID(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	const protoIP, packets = 0x0800, 10 // a socket's buffer may hold no more than 25
	sniffer, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(protoIP>>8|protoIP<<8&0xff00))
	require.NoError(t, err)
	defer unix.Close(sniffer)
	require.NoError(t, unix.SetsockoptTimeval(sniffer, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))

	a := newSide(t, sideConfig{Config: testConfig(t, false)})
	b := newSide(t, sideConfig{Config: testConfig(t, false)})
	a.another(b.qp.Info()) // for this one the kernel may count
	info := b.qp.Info()
	info.Flags = 0
	require.NoError(t, a.qp.Connect(info))
	a.post(a.message(1, 0, packets*4096, 4096)...)
	buf := make([]byte, 1<<16)
	seen := 0
	for start := time.Now(); seen < 2*packets && time.Since(start) < 5*time.Second; {
		n, _, err := unix.Recvfrom(sniffer, buf, 0)
		if err != nil {
			break
		}
		if n < 28 || binary.BigEndian.Uint16(buf[22:]) != info.Port {
			continue
		}
		seen++
		require.Equal(t, 4096+64, n)
		require.Zero(t, binary.BigEndian.Uint16(buf[4:]), "identification")
		require.EqualValues(t, 0x4000, binary.BigEndian.Uint16(buf[6:]), "don't fragment, offset 0")
	}
	require.GreaterOrEqual(t, seen, packets, "sent, and perhaps seen again on arrival")
}

// TestFullSendBuffer: where packets wait in this host (here for a neighbour that doesn't answer), a post
// takes fewer than all and says when to try again.
func TestFullSendBuffer(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	addInterface(t, "wire0", 9000)
	for _, x := range []struct{ own, silent string }{{"192.0.2.1", "192.0.2.10"}, {"fd00::1", "fd00::10"}} {
		c := testConfig(t, false)
		c.Addr, c.SendBuffer = netip.MustParseAddr(x.own), 64*units.KiB
		e := newSide(t, sideConfig{Config: c})
		require.NoError(t, e.qp.Connect(backend.QPInfo{Addr: netip.MustParseAddr(x.silent), QPN: 2, Flags: backend.FlagICRCZeroID}))
		require.Equal(t, units.Never, e.cq.Next())
		w := e.message(1, 0, 100*4096, 4096)
		for i := range w {
			w[i].Signaled = true
		}
		now := e.d.Now()
		n, err := e.qp.PostWrites(now, w)
		require.NoError(t, err)
		require.Positive(t, n)
		require.Less(t, n, len(w))
		require.EqualValues(t, n, e.d.Stats().PacketsSent)
		k, err := e.cq.Poll(now, e.batch[:])
		require.NoError(t, err)
		require.Equal(t, n, k, "what was taken is completed")
		require.Equal(t, now.Add(retryAfter), e.cq.Next())
		_, err = e.cq.Poll(now.Add(retryAfter), e.batch[:])
		require.NoError(t, err)
		require.Equal(t, units.Never, e.cq.Next())

		h, err := e.d.OpenAddress(backend.QPInfo{Addr: netip.MustParseAddr(x.silent), QPN: 2})
		require.NoError(t, err)
		g := make([]backend.Datagram, 100)
		for i := range g {
			g[i] = backend.Datagram{To: h, Data: make([]byte, 4096)}
		}
		ud := e.newUD()
		n, err = ud.PostDatagrams(now, g)
		require.NoError(t, err)
		require.Less(t, n, len(g))

		// A datagram that would go along waits with the writes.
		later, carried := now.Add(units.Second), true
		for n = mostCarriers; n == mostCarriers; { // unless the kernel has given up looking for the neighbour, and so has room again
			for n = len(w); n == len(w); {
				n, err = e.qp.PostWrites(now, w)
				require.NoError(t, err)
				_, err = e.cq.Poll(now, e.batch[:])
				require.NoError(t, err)
			}
			n, carried, err = e.qp.(backend.Carrier).PostWritesWith(later, w[:mostCarriers], ud, g[0])
			require.NoError(t, err)
		}
		require.False(t, carried)
		require.Equal(t, later.Add(retryAfter), units.Instant(e.cq.(*cq).retry.Load()))
		require.NoError(t, e.d.Close())
	}
}

// TestNoLoopback: a network namespace that was just made has no 127.0.0.1, until somebody brings its loopback up.
func TestNoLoopback(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	addrs, err := netlink.AddrList(lo, netlink.FAMILY_V4)
	require.NoError(t, err)
	for i := range addrs {
		require.NoError(t, netlink.AddrDel(lo, &addrs[i]))
	}
	_, err = Open(Config{Addr: netip.MustParseAddr("127.0.0.1")})
	require.ErrorContains(t, err, "127.0.0.1 is not an address of this host (ip link set lo up)")
}
