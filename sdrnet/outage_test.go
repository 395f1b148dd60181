// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestSilenceBoundsTCP: an outage that Config.Silence allows doesn't end the TCP connection that the ends met over, and so not the Conn.
func TestSilenceBoundsTCP(t *testing.T) {
	const silence = 25 * units.Second
	cfg := &sdrnet.Config{Silence: silence}
	dialled, accepted := connect(t, listen(t, cfg), cfg)
	for name, c := range map[string]*sdrnet.Conn{"dialled": dialled, "accepted": accepted} {
		require.EqualValues(t, silence/units.Millisecond, userTimeout(t, c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)), name)
	}
}

// TestConnectTimeout: connecting waits for a first packet for longer than a round trip of the link that is emulated, and the longer the longer
// silence may be.
func TestConnectTimeout(t *testing.T) {
	for _, c := range []struct{ silence, rtt, want units.Duration }{
		{0, 0, 5 * units.Second},
		{units.Second, 0, 5 * units.Second},
		{2 * units.Minute, 0, 20 * units.Second},
		{0, 10 * units.Second, 45 * units.Second},
	} {
		got, err := sdrnet.ConnectTimeout(&sdrnet.Config{Silence: c.silence, Link: linkemu.Config{RTT: c.rtt}})
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

// userTimeout is TCP_USER_TIMEOUT, in milliseconds, of this process's socket between two addresses.
func userTimeout(t *testing.T, local, remote *net.TCPAddr) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		if isAt(unix.Getsockname, fd, local) && isAt(unix.Getpeername, fd, remote) {
			millis, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			require.NoError(t, err)
			return millis
		}
	}
	t.Fatalf("no socket between %v and %v", local, remote)
	return 0
}

// isAt reports whether a name of socket fd, which need not be one, is an IPv4 address.
func isAt(name func(fd int) (unix.Sockaddr, error), fd int, a *net.TCPAddr) bool {
	sa, err := name(fd)
	in, ok := sa.(*unix.SockaddrInet4)
	return err == nil && ok && in.Port == a.Port && net.IP(in.Addr[:]).Equal(a.IP)
}
