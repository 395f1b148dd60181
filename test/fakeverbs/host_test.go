// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadPorts: what can't be a device is named, before anything is made of it.
func TestBadPorts(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for want, ports := range map[string][]Port{
		`device "": it needs a name`:           {{Addr: addr}},
		`device "../x": it needs a name`:       {{Name: "fake0", Addr: addr}, {Name: "../x", Addr: addr}},
		`device "..": it needs a name`:         {{Name: "..", Addr: addr}},
		"device a: there are two of that name": {{Name: "a", Addr: addr}, {Name: "a", Addr: addr.Next()}},
		"device a: ::1 is no IPv4 address":     {{Name: "a", Addr: netip.MustParseAddr("::1")}},
		"device b: invalid IP is no IPv4":      {{Name: "b", Addr: netip.MustParseAddr("255.255.255.255").Next()}},
	} {
		_, err := NewHost(ports...)
		require.ErrorContains(t, err, want)
	}
}
