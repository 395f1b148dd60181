// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/units"
)

// hostPair makes two sides on two hosts, connected.
func hostPair(t *testing.T, v6 bool, change ...func(a, b *sideConfig)) (ha, hb *netnstest.Host, a, b *side) {
	t.Helper()
	ha, hb = netnstest.Pair(t, 9000)
	ca, cb := sideConfig{Config: testConfig(t, false)}, sideConfig{Config: testConfig(t, false)}
	ca.Addr, cb.Addr = ha.V4, hb.V4
	if v6 {
		ca.Addr, cb.Addr = ha.V6, hb.V6
	}
	for _, f := range change {
		f(&ca, &cb)
	}
	ha.Do(func() { a = newSide(t, ca) })
	hb.Do(func() { b = newSide(t, cb) })
	ha.Do(func() { require.NoError(t, a.qp.Connect(b.qp.Info())) })
	hb.Do(func() { require.NoError(t, b.qp.Connect(a.qp.Info())) })
	return ha, hb, a, b
}

// arrive sends n packets of 4 KiB from a to b and requires that all arrive.
func arrive(t *testing.T, a, b *side, message uint64, n int) {
	t.Helper()
	rkey, va := b.expose(message, 0, testMax)
	a.post(a.message(rkey, va, units.Bytes(n)*4096, 4096)...)
	require.Len(t, b.poll(n), n)
	b.table.StartRevoke(message)
}

// cachedMTU is what the kernel believes of the path from one address to another.
func cachedMTU(t *testing.T, from, to netip.Addr) int {
	t.Helper()
	fd, err := newSocket(from.Is6())
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, bind(fd, from, 0, 0))
	require.NoError(t, unix.Connect(fd, sockaddr(to, 9, 0)))
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if from.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	require.NoError(t, err)
	return mtu
}

// TestForgedTooBig: a message of a third host that packets are too big for the path, which nobody can distinguish
// from a router's, harms neither a queue pair nor the next one.
func TestForgedTooBig(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		ha, hb, a, b := hostPair(t, v6)
		arrive(t, a, b, 0, 20)
		liar := netip.MustParseAddr("192.0.2.77")
		if v6 {
			liar = netip.MustParseAddr("fd00::77")
		}
		hb.Send(netnstest.TooBig(liar, netip.AddrPortFrom(a.d.addr, a.d.senders[0].port), b.d.Addr(), 1300))
		ha.Do(func() {
			for start := time.Now(); cachedMTU(t, a.d.addr, b.d.addr) != 1300; time.Sleep(time.Millisecond) {
				require.Less(t, time.Since(start), 10*time.Second, "the kernel must believe it, else this test is for nothing")
			}
		})
		arrive(t, a, b, 1, 20)
		require.Zero(t, a.d.WireStats().TooLarge)
		ha.Do(func() {
			again := newSide(t, sideConfig{Config: Config{Addr: a.d.addr, Port: AnyPort, Logger: slog.New(slog.DiscardHandler)}})
			require.NoError(t, again.qp.Connect(b.qp.Info()), "a new connection")
		})
	})
}

// TestRouteMTU: the MTU that a route was given counts, and in the place of the interface's, also for a device that has known the path without.
func TestRouteMTU(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		ha, _, a, b := hostPair(t, v6)
		ha.Do(func() {
			link, err := netlink.LinkByName(ha.Link)
			require.NoError(t, err)
			peer := b.d.addr
			route := &netlink.Route{
				LinkIndex: link.Attrs().Index, MTU: 1500,
				Dst: &net.IPNet{IP: peer.AsSlice(), Mask: net.CIDRMask(peer.BitLen(), peer.BitLen())},
			}
			require.NoError(t, netlink.RouteAdd(route))
			r, known := a.d.routes[peer]
			require.True(t, known, "the path is remembered")
			r.at = r.at.Add(-routeAge)
			a.d.routes[peer] = r
			qp, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, MTU: 4096})
			require.NoError(t, err)
			require.ErrorContains(t, qp.Connect(b.qp.Info()), "the route to "+peer.String()+" has MTU 1500: use MTU 1024")
			require.NoError(t, netlink.RouteDel(route))
			require.NoError(t, qp.Connect(b.qp.Info()), "a refusal isn't remembered")
		})
	})
}

// TestRoutesBounded: a device doesn't remember the path to each peer that has ever connected.
func TestRoutesBounded(t *testing.T) {
	d := openTest(t, testConfig(t, false))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range maxRoutes + 10 {
		local, err := d.checkPath(netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), 4096)
		require.NoError(t, err)
		require.True(t, local)
		require.LessOrEqual(t, len(d.routes), maxRoutes)
	}
	require.Len(t, d.routes, 10)
}

// TestMTUDrop: packets are lost while the interface's MTU is too small, and arrive again once it has grown.
func TestMTUDrop(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		var log bytes.Buffer
		ha, _, a, b := hostPair(t, v6, func(a, _ *sideConfig) { a.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		arrive(t, a, b, 0, 20)
		ha.SetMTU(1500)
		ha.Do(func() { require.EqualValues(t, 1024, a.d.PathMTU()) })
		for range 2 {
			a.post(a.message(1, 0, 20*4096, 4096)...)
		}
		require.EqualValues(t, 40, a.d.WireStats().TooLarge)
		require.NoError(t, a.d.Stats().RefusedErr)
		require.Equal(t, 1, strings.Count(log.String(), "no longer fit the network interface"), "%s", &log)
		require.Contains(t, log.String(), "interface="+ha.Link)
		require.True(t, a.d.WireStats().SegmentationOffload)
		ha.SetMTU(9000)
		ha.Do(func() { require.EqualValues(t, 4096, a.d.PathMTU()) })
		arrive(t, a, b, 1, 20)
	})
}

// TestBlackholeRoute: the kernel refuses what goes to such a route with the error by which it refuses trains
// that it can't segment. That is no reason to send packets one by one ever after.
func TestBlackholeRoute(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		var log bytes.Buffer
		ha, _, a, b := hostPair(t, v6, func(a, _ *sideConfig) { a.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		arrive(t, a, b, 0, 20)
		trains := a.d.WireStats().SendTrains
		require.NotZero(t, trains)
		require.NoError(t, a.d.Stats().RefusedErr)
		begun := a.d.Now()
		heal := ha.Blackhole(b.d.addr)
		for range 2 {
			a.post(a.message(1, 0, 20*4096, 4096)...)
		}
		heal()
		require.EqualValues(t, 40, a.d.WireStats().NetworkErrors)
		s := a.d.Stats()
		require.Equal(t, unix.EINVAL, s.RefusedErr)
		require.Greater(t, s.Refused, begun)
		require.True(t, a.d.WireStats().SegmentationOffload)
		arrive(t, a, b, 1, 20)
		require.Greater(t, a.d.WireStats().SendTrains, trains)
		require.Contains(t, log.String(), "the network refuses packets")
		require.NotContains(t, log.String(), "can't segment")
		// The same error, this time for want of checksums: it has its own warning.
		level, option := unix.SOL_SOCKET, unix.SO_NO_CHECK
		if v6 {
			level, option = unix.SOL_UDP, unix.UDP_NO_CHECK6_TX
		}
		require.NoError(t, unix.SetsockoptInt(a.d.senders[0].fd, level, option, 1))
		arrive(t, a, b, 2, 20)
		require.Equal(t, 1, strings.Count(log.String(), "can't segment UDP"), "%s", &log)
	})
}

// TestSegmentationReturns: after a refusal trains are tried again, later and later, and once they pass all is
// as before.
func TestSegmentationReturns(t *testing.T) {
	a, b := newPair(t, false)
	noCheck := func(v int) {
		require.NoError(t, unix.SetsockoptInt(a.d.senders[0].fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, v))
	}
	rkey, va := b.expose(0, 0, testMax)
	post := func(now units.Instant) bool {
		w := a.message(rkey, va, 2*4096, 4096)
		n, err := a.qp.PostWrites(now, w)
		require.NoError(t, err)
		require.Equal(t, len(w), n)
		require.Len(t, b.poll(n), n, "nothing is lost")
		return a.d.WireStats().SegmentationOffload
	}
	noCheck(1)
	now := units.Instant(units.Second)
	for _, pause := range []units.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
		require.False(t, post(now))
		now = now.Add(pause*units.Second - 1)
		require.False(t, post(now), "before %d s have passed", pause)
		now = now.Add(1)
	}
	noCheck(0)
	require.True(t, post(now))
	noCheck(1)
	require.False(t, post(now))
	noCheck(0)
	require.True(t, post(now.Add(units.Second)), "the pause begins anew")
}
