// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func TestChooseGID(t *testing.T) {
	entry := func(index int, kind verbs.GIDType, addr string) verbs.GIDEntry {
		return verbs.GIDEntry{Port: 1, Index: index, Type: kind, GID: verbs.GIDFromAddr(netip.MustParseAddr(addr))}
	}
	table := []verbs.GIDEntry{
		entry(0, verbs.GIDRoCEv1, "192.0.2.1"),
		entry(1, verbs.GIDRoCEv2, "fe80::1"),
		entry(2, verbs.GIDRoCEv2, "2001:db8::1"),
		entry(3, verbs.GIDRoCEv2, "192.0.2.1"),
	}
	for _, c := range []struct {
		name  string
		table []verbs.GIDEntry
		port  int
		addr  string
		index int
		err   string
	}{
		{"IPv4 first", table, 1, "", 3, ""},
		{"then IPv6", table[:3], 1, "", 2, ""},
		{"link-local last", table[:2], 1, "", 1, ""},
		{"a link-local IPv4 one, too", append([]verbs.GIDEntry{entry(4, verbs.GIDRoCEv2, "169.254.7.7")}, table...), 1, "", 3, ""},
		{"behind an IPv6 one", append(table[:3:3], entry(4, verbs.GIDRoCEv2, "169.254.7.7")), 1, "", 2, ""},
		{"and before an IPv6 one", append(table[:2:2], entry(4, verbs.GIDRoCEv2, "169.254.7.7")), 1, "", 4, ""},
		{"by address", table, 1, "2001:db8::1", 2, ""},
		{"RoCEv2 of two with the address", table, 1, "192.0.2.1", 3, ""},
		{"mapped address", table, 1, "::ffff:192.0.2.1", 3, ""},
		{"address with zone", table, 1, "fe80::1%eth0", 1, ""},
		{"no such address", table, 1, "192.0.2.9", 0, "it has fe80::1, 2001:db8::1, 192.0.2.1"},
		{"RoCEv1 only", table[:1], 1, "", 0, "ip addr add"},
		{"other port", table, 2, "", 0, "port 2: the port is not ready: it has no RoCEv2 GID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want netip.Addr
			if c.addr != "" {
				want = netip.MustParseAddr(c.addr)
			}
			e, err := chooseGID(c.table, "rxe0", c.port, want)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, ErrNotReady)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.index, e.Index)
		})
	}
}

func TestGIDAt(t *testing.T) {
	entry := func(port, index int, kind verbs.GIDType, addr string) verbs.GIDEntry {
		return verbs.GIDEntry{Port: port, Index: index, Type: kind, GID: verbs.GIDFromAddr(netip.MustParseAddr(addr))}
	}
	table := []verbs.GIDEntry{
		entry(1, 0, verbs.GIDRoCEv1, "192.0.2.1"),
		entry(1, 1, verbs.GIDRoCEv2, "fe80::1"),
		entry(1, 3, verbs.GIDRoCEv2, "192.0.2.1"),
		entry(2, 2, verbs.GIDRoCEv2, "192.0.2.2"),
	}
	e, err := gidAt(table, "rxe0", 1, 3)
	require.NoError(t, err)
	require.Equal(t, table[2], e)
	for _, index := range []int{-1, 0, 2, 99} { // 0 is RoCEv1, 2 is another port's
		_, err = gidAt(table, "rxe0", 1, index)
		require.ErrorContains(t, err, "it has 1 (fe80::1), 3 (192.0.2.1)", index)
	}
	_, err = gidAt(table, "rxe0", 3, 0)
	require.ErrorContains(t, err, "port 3 has no RoCEv2 GID at index 0: it has none yet")
}

// TestPort: what is wrong with a port that can't be used is told apart.
func TestPort(t *testing.T) {
	active := verbs.PortAttr{State: verbs.PortActive, LinkLayer: verbs.LinkEthernet}
	require.NoError(t, checkPort("rxe0", 1, &active, " eth0"))
	down, ib := active, active
	down.State, ib.LinkLayer = verbs.PortDown, verbs.LinkInfiniBand
	err := checkPort("rxe0", 1, &down, " eth0")
	require.ErrorIs(t, err, ErrNotReady)
	require.ErrorContains(t, err, "rxe0 port 1: the port is not ready: it is DOWN: bring its network interface eth0 up")
	for _, s := range []verbs.PortState{verbs.PortActive, verbs.PortInit} { // an address won't help it, nor will waiting
		ib.State = s
		err = checkPort("mlx5_0", 2, &ib, "")
		require.NotErrorIs(t, err, ErrNotReady)
		require.ErrorContains(t, err, "mlx5_0 port 2 is InfiniBand")
	}
}
