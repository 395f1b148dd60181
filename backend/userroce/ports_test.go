// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoSharedPort: a device whose port the kernel chooses has it alone, also where each device has several sockets, which share one.
func TestNoSharedPort(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	const ports = 4
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40003"), 0))
	families(t, func(t *testing.T, v6 bool) {
		c := testConfig(t, v6)
		c.Port, c.Workers = AnyPort, 2
		if !v6 {
			c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // testConfig has one for each device
		}
		owners := map[uint16]int{}
		for range ports {
			owners[openTest(t, c).Addr().Port()]++
		}
		require.Len(t, owners, ports, "ports, and how many devices have each")
		_, err := Open(c)
		require.ErrorIs(t, err, unix.EADDRINUSE)
		require.ErrorContains(t, err, "ip_local_port_range")
	})
}
