// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestKeep: a server that stays serves one client after another, also after one that fails, and shows what each
// measured.
func TestKeep(t *testing.T) {
	s, to := startServer(t, "--keep")
	for i := range 3 {
		args := append(to[:len(to):len(to)], "-s", "4KiB,64KiB", "-n", "3", "--warmup", "0")
		if i == 1 {
			c := start(t, append(args, "-s", "64MiB", "--rate", "20mbit")...)
			require.Eventually(t, func() bool { return strings.Count(s.stdout.String(), "one transfer at a time") == 2 }, waitLimit, 5*time.Millisecond)
			require.NoError(t, c.cmd.Process.Kill())
			require.Eventually(t, func() bool { return strings.Contains(s.errors(), "sdr-perf: ") }, waitLimit, 5*time.Millisecond, "it has not noticed")
			continue
		}
		c := start(t, args...)
		c.ends(t, waitLimit, 0)
	}
	require.Eventually(t, func() bool { return strings.Count(s.stdout.String(), " ok\n") == 4 }, waitLimit, 5*time.Millisecond, "%s", s.stdout.String())
	require.Equal(t, 3, strings.Count(s.stdout.String(), "one transfer at a time"))
	require.Equal(t, 2, strings.Count(s.stdout.String(), "T/ideal"))
	done := func() bool { return strings.Count(s.stdout.String(), " done: 2 points, 6 transfers, 204 KiB in ") == 2 }
	require.Eventually(t, done, waitLimit, 5*time.Millisecond, "%s", s.stdout.String())
	require.Equal(t, 1, strings.Count(s.stdout.String(), " broke off: "))
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.ends(t, waitLimit, exitInterrupted)
	require.Regexp(t, `(?m)^served 3 clients \(1 broke off\): [456] points, `, s.stdout.String())
}

// TestKeepWithoutDevice: a server that stays and can't open its device tells each client why, logs it no more often than what else it turns
// away, and serves when the device can be opened.
func TestKeepWithoutDevice(t *testing.T) {
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(own(0)), Port: 4791})
	require.NoError(t, err)
	defer u.Close()
	s, to := startServer(t, "--keep")
	const visitors = 40
	begun := time.Now()
	for range visitors {
		c, err := oob.Dial(t.Context(), s.listening(t), oob.Config{})
		require.NoError(t, err)
		theirs, err := exchange(t.Context(), c, 10*units.Second, hello{Version: protocolVersion})
		require.NoError(t, err)
		require.Contains(t, theirs.Err, "UDP port 4791")
		require.NoError(t, c.Close())
	}
	require.NoError(t, u.Close())
	c := start(t, append(to, "-s", "4KiB", "-n", "1", "--warmup", "0")...)
	c.ends(t, waitLimit, 0)
	require.Contains(t, s.errors(), "UDP port 4791")
	lines := strings.Count(s.errors(), "\n")
	require.Less(t, lines, 15+int(time.Since(begun).Seconds()), "%s", s.errors())
}

// TestServerCountsWhatWasDone: of a client that is killed the server says how many transfers had come, one at a time or several.
func TestServerCountsWhatWasDone(t *testing.T) {
	for _, more := range [][]string{nil, {"-t", "2"}, {"--latency"}} {
		counted := func(pause time.Duration) string {
			s, c := underWay(t, append(more, "-s", "64KiB", "--warmup", "2", "-n", "100000", "--rate", "50mbit")...)
			time.Sleep(pause)
			require.NoError(t, c.cmd.Process.Kill())
			s.ends(t, waitLimit, exitFailure)
			return s.stdout.String()
		}
		out := counted(400 * time.Millisecond)
		for pause := time.Second; strings.Contains(out, " 0 transfers") && pause < 20*time.Second; pause *= 4 { // a busy machine
			out = counted(pause)
		}
		require.Regexp(t, `broke off: 0 points, [1-9][0-9]* transfers?, [0-9.]+ [KM]iB in `, out)
	}
}
