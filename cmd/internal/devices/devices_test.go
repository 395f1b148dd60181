// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownAddr is a loopback address that no other test process uses.
func ownAddr() netip.Addr {
	pid := os.Getpid()
	return netip.MustParseAddr(fmt.Sprintf("127.%d.%d.%d", 128+pid>>14&63, pid>>7&127, pid&127<<1|1))
}

func TestOpen(t *testing.T) {
	o := Options{Addr: ownAddr(), Workers: 2, Logger: slog.New(slog.DiscardHandler)}
	d, err := Open(Default, o)
	require.NoError(t, err)
	require.Equal(t, Default, d.Caps().Backend)
	require.NoError(t, d.Close())
	_, err = Open("mlx5_99", o)
	require.ErrorContains(t, err, `unknown device "mlx5_99": choose one of softroce, userroce`)
}

// TestOwnAddress: the near address is taken when none is asked for, and described.
func TestOwnAddress(t *testing.T) {
	d, err := Open(Default, Options{Near: ownAddr(), Workers: 1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, ownAddr().String()+":4791", Describe(d))
	require.NoError(t, CheckMTU(Default, d, d.Caps().PathMTU))
	require.EqualError(t, CheckMTU(Default, d, 8192),
		"MTU 8192: userroce carries packets of 4096 at most: choose 4096, or give its network interface 8256 or more at both ends: ip link set dev INTERFACE mtu 8256")
}

// TestNotTheKernels: what only the kernel's devices have.
func TestNotTheKernels(t *testing.T) {
	index := 0
	for _, o := range []Options{{GIDIndex: &index}, {Port: 2}} {
		_, err := Open(Default, o)
		require.ErrorContains(t, err, "userroce has no GID index and one port")
	}
	_, err := Open("softroce", Options{Port: 2})
	require.EqualError(t, err, "port 2: a Soft-RoCE device has one, port 1")
	_, err = Open("softroce", Options{GIDIndex: &index, Addr: ownAddr()})
	require.ErrorContains(t, err, "leave one out")
}

// TestKernelsDevices: what they can't do is said before they are looked for.
func TestKernelsDevices(t *testing.T) {
	_, err := Open("softroce", Options{UDPPort: 5000})
	require.EqualError(t, err, "the kernel's RDMA devices use UDP port 4791 only")
}

func TestPortTaken(t *testing.T) {
	o := Options{Addr: ownAddr(), Logger: slog.New(slog.DiscardHandler)}
	d, err := Open(Default, o)
	require.NoError(t, err)
	defer d.Close()
	_, err = Open(Default, o)
	require.ErrorContains(t, err, "--udp-port any")
	o.UDPPort = AnyPort
	other, err := Open(Default, o)
	require.NoError(t, err)
	require.NoError(t, other.Close())
}
