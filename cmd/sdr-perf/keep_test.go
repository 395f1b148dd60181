// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKeep: a server that stays serves one client after another, also after one that fails, and shows what each
// measured.
func TestKeep(t *testing.T) {
	s, to := startServer(t, "--keep")
	for i := range 3 {
		args := append(to[:len(to):len(to)], "-s", "4KiB,64KiB", "-n", "3", "--warmup", "0")
		if i == 1 {
			c := start(t, append(args, "-s", "64MiB", "--rate", "20mbit")...)
			require.Eventually(t, func() bool { return strings.Count(s.stdout.String(), "one transfer at a time") == 2 }, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, c.cmd.Process.Kill())
			require.Eventually(t, func() bool { return strings.Contains(s.errors(), "sdr-perf: ") }, 10*time.Second, 5*time.Millisecond, "it has not noticed")
			continue
		}
		c := start(t, args...)
		c.ends(t, 20*time.Second, 0)
	}
	require.Eventually(t, func() bool { return strings.Count(s.stdout.String(), " ok\n") == 4 }, 5*time.Second, 5*time.Millisecond, "%s", s.stdout.String())
	require.Equal(t, 3, strings.Count(s.stdout.String(), "one transfer at a time"))
	require.Equal(t, 2, strings.Count(s.stdout.String(), "T/ideal"))
	done := func() bool { return strings.Count(s.stdout.String(), " done: 2 points, 6 transfers, 204 KiB in ") == 2 }
	require.Eventually(t, done, 5*time.Second, 5*time.Millisecond, "%s", s.stdout.String())
	require.Equal(t, 1, strings.Count(s.stdout.String(), " broke off: "))
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.ends(t, 5*time.Second, exitInterrupted)
	require.Regexp(t, `(?m)^served 3 clients \(1 broke off\): [456] points, `, s.stdout.String())
}

// TestServerCountsWhatWasDone: of a client that is killed the server says how many transfers had come, one at a time or several.
func TestServerCountsWhatWasDone(t *testing.T) {
	for _, more := range [][]string{nil, {"-t", "2"}, {"--latency"}} {
		counted := func(pause time.Duration) string {
			s, c := underWay(t, append(more, "-s", "64KiB", "--warmup", "2", "-n", "100000", "--rate", "50mbit")...)
			time.Sleep(pause)
			require.NoError(t, c.cmd.Process.Kill())
			s.ends(t, 10*time.Second, exitFailure)
			return s.stdout.String()
		}
		out := counted(400 * time.Millisecond)
		for pause := time.Second; strings.Contains(out, " 0 transfers") && pause < 20*time.Second; pause *= 4 { // a busy machine
			out = counted(pause)
		}
		require.Regexp(t, `broke off: 0 points, [1-9][0-9]* transfers?, [0-9.]+ [KM]iB in `, out)
	}
}
