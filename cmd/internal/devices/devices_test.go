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
