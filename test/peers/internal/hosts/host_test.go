// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process on a host sees the host's device and settings, and only those.
func TestHost(t *testing.T) {
	h, err := New(Config{
		Addr: netip.MustParseAddr("10.78.0.1"), MTU: 4200,
		Sysctls: map[string]string{"net/ipv4/tcp_slow_start_after_idle": "0"},
	})
	if errors.Is(err, ErrPrivilege) {
		t.Skip(err)
	}
	require.NoError(t, err)
	var out strings.Builder
	cmd := exec.Command("sh", "-c", "cat /proc/net/dev /proc/net/fib_trie /proc/sys/net/ipv4/tcp_slow_start_after_idle")
	cmd.Stdout = &out
	require.NoError(t, h.Start(cmd))
	require.NoError(t, cmd.Wait())
	require.Contains(t, out.String(), tunName+":")
	require.NotContains(t, out.String(), "eth")
	require.Contains(t, out.String(), "10.78.0.1")
	require.True(t, strings.HasSuffix(out.String(), "\n0\n"), "sysctl")
	require.Positive(t, h.TUN())
	h.Close()
}

func TestSysctlRefused(t *testing.T) {
	_, err := New(Config{Addr: netip.MustParseAddr("10.78.0.1"), MTU: 4200, Sysctls: map[string]string{"net/none": "1"}})
	if errors.Is(err, ErrPrivilege) {
		t.Skip(err)
	}
	require.ErrorContains(t, err, "net/none")
}
