// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The number of datagrams that a socket had no room for is found in the kernel's table.
func TestDroppedBy(t *testing.T) {
	l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.SetReadBuffer(1)) // the least there is: two packets or so
	here := l.LocalAddr().(*net.UDPAddr).AddrPort()
	here = netip.AddrPortFrom(here.Addr().Unmap(), here.Port())
	require.Zero(t, droppedBy(here))
	c, err := net.DialUDP("udp4", nil, l.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	defer c.Close()
	const n = 100
	for range n {
		_, err := c.Write(make([]byte, 1000))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return droppedBy(here) > n/2 }, 10*time.Second, time.Millisecond)
	require.Less(t, droppedBy(here), n)
}
