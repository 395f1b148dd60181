// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// GUID is an EUI-64 in network byte order, which names a node, a port or a system image.
type GUID [8]byte

// String prints g as rdma-core's tools do: 5054:00ff:fe12:3456.
func (g GUID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x", g[0:2], g[2:4], g[4:6], g[6:8])
}

// parseGUID reads the form of sysfs, which is that of String.
func parseGUID(s string) (GUID, error) {
	var g GUID
	digits := strings.ReplaceAll(s, ":", "")
	if n, err := hex.Decode(g[:], []byte(digits)); err != nil || n != len(g) || len(digits) != 2*len(g) {
		return GUID{}, fmt.Errorf("GUID %q: want four groups of four hexadecimal digits", s)
	}
	return g, nil
}

// GID is a port's address, 128 bits in network byte order (IBTA volume 1, 4.1.1). On RoCEv2 it is
// an IPv6 address, or an IPv4 address mapped into IPv6.
type GID [16]byte

// GIDFromAddr makes the GID of an IP address, an IPv4 one in its mapped form.
func GIDFromAddr(a netip.Addr) GID { return GID(a.As16()) }

// Addr is the IP address of a RoCEv2 GID, IPv4 when it is a mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero tells whether the GID is unset, as unused entries of a GID table are.
func (g GID) IsZero() bool { return g == GID{} }

// String prints g as an IPv6 address, mapped IPv4 as ::ffff:192.0.2.1.
func (g GID) String() string { return netip.AddrFrom16(g).String() }
