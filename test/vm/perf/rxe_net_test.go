// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// cable is the interface between two VMs.
const cable = "eth0"

// listens says whether a socket of this VM waits at a TCP port.
func listens(t testing.TB, port string) bool {
	t.Helper()
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// gidIndex is where a device has an address.
func gidIndex(t testing.TB, device, addr string) string {
	t.Helper()
	ctx, err := verbs.Open(device)
	require.NoError(t, err)
	defer ctx.Close()
	table, err := ctx.GIDTable()
	require.NoError(t, err)
	for _, e := range table {
		if e.Type == verbs.GIDRoCEv2 && e.GID.Addr() == netip.MustParseAddr(addr) {
			return strconv.Itoa(e.Index)
		}
	}
	t.Fatalf("%s has no GID for %s: %v", device, addr, table)
	return ""
}

// impair sets netem on this VM's end of the cable until the test ends.
func impair(t testing.TB, n netlink.NetemQdiscAttrs) {
	t.Helper()
	undo := rxetest.Impair(t, n, cable)
	t.Cleanup(func() { require.NoError(t, undo()) })
}

// setMTU sets the cable's MTU until the test ends.
func setMTU(t testing.TB, mtu int) {
	t.Helper()
	link, err := netlink.LinkByName(cable)
	require.NoError(t, err)
	before := link.Attrs().MTU
	require.NoError(t, netlink.LinkSetMTU(link, mtu))
	t.Cleanup(func() { require.NoError(t, netlink.LinkSetMTU(link, before)) })
}
