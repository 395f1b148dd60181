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
	for _, name := range Names() {
		d, err := Open(name, o)
		require.NoError(t, err)
		require.Equal(t, name, d.Caps().Backend)
		require.NoError(t, d.Close())
	}
	_, err := Open("mlx5_0", o)
	require.EqualError(t, err, `unknown device "mlx5_0": choose one of userroce`)
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
