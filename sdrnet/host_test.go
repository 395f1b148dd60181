// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestHelloHasMTUOfNow: a device that was opened before its interface's MTU was lowered is good for connections of the lower one.
func TestHelloHasMTUOfNow(t *testing.T) {
	a, _ := netnstest.Pair(t, 9000)
	cfg, err := (*Config)(nil).complete()
	require.NoError(t, err)
	var h *host
	a.Do(func() { h, err = openHost(cfg, a.V4, userroce.AnyPort) })
	require.NoError(t, err)
	defer h.close()
	l, err := oob.Listen(t.Context(), "127.0.0.1:0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	for mtu, want := range map[int]int{9000: 4096, 1500: 1024} {
		a.SetMTU(mtu)
		s, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
		require.NoError(t, err)
		peer, err := l.Accept(t.Context())
		require.NoError(t, err)
		said := make(chan []byte, 1)
		go func() {
			b, _ := peer.Exchange(t.Context(), hello{mtu: 4096, buffer: defaultBufferSize}.encode())
			said <- b
		}()
		var theirs hello
		a.Do(func() { theirs, err = exchangeHello(t.Context(), s, cfg, h) })
		require.NoError(t, err)
		require.EqualValues(t, want, theirs.mtu, "of the connection")
		ours, err := decodeHello(<-said)
		require.NoError(t, err)
		require.EqualValues(t, want, ours.mtu)
		require.NoError(t, s.Close())
		require.NoError(t, peer.Close())
	}
}

// TestInterfaceMadeAgain: a device at a link-local address is of no use once its interface was removed and made again, with another number.
func TestInterfaceMadeAgain(t *testing.T) {
	a, _ := netnstest.Pair(t, 1500)
	cfg, err := (*Config)(nil).complete()
	require.NoError(t, err)
	a.Do(func() {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "again0"}, PeerName: "again1"}
		up := func() {
			link.Index = 0 // whichever is free
			require.NoError(t, netlink.LinkAdd(link))
			addr, err := netlink.ParseAddr("fe80::9/64")
			require.NoError(t, err)
			addr.Flags = unix.IFA_F_NODAD
			require.NoError(t, netlink.AddrAdd(link, addr))
			require.NoError(t, netlink.LinkSetUp(link))
		}
		up()
		h, err := openHost(cfg, netip.MustParseAddr("fe80::9%again0"), userroce.AnyPort)
		require.NoError(t, err)
		defer h.close()
		require.True(t, h.works())
		require.NoError(t, netlink.LinkDel(link))
		up()
		require.False(t, h.works())
	})
}

// TestDeathIsToldBeforeStandstill: of a peer that has died both its silence and the standstill of what is sent to it would be an error.
func TestDeathIsToldBeforeStandstill(t *testing.T) {
	for _, silence := range []units.Duration{minSilence, defaultSilence, units.Duration(units.Never)} {
		c := Config{Silence: silence}
		require.GreaterOrEqual(t, c.noProgress(), silence)
		require.Equal(t, silence < units.Duration(units.Never), c.noProgress() > silence)
	}
}

// TestDeviceFailed: a Listener opens a device again that has failed, as one does that is removed and comes back.
func TestDeviceFailed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	free, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	require.NoError(t, free.Close())
	at := free.LocalAddr().(*net.UDPAddr)
	l, err := Listen("127.0.0.1:0", &Config{Addr: at.AddrPort().Addr(), UDPPort: uint16(at.Port), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Close()
	meet := func() error {
		c, err := Dial(ctx, l.Addr().String(), nil)
		if err != nil {
			return err
		}
		accepted, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		return errors.Join(c.Close(), accepted.Close())
	}
	require.NoError(t, meet())
	l.hosts.mu.Lock()
	for _, h := range l.hosts.all {
		require.NoError(t, h.dev.Close())
	}
	l.hosts.mu.Unlock()
	away, err := net.ListenUDP("udp", at) // it can't be opened yet
	require.NoError(t, err)
	_, err = Dial(ctx, l.Addr().String(), nil)
	require.Error(t, err)
	require.NoError(t, away.Close())
	require.Eventually(t, func() bool { err = meet(); return err == nil }, 10*time.Second, 100*time.Millisecond)
}
