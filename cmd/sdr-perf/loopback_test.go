// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTwoLoopbackRuns: two runs at a time find addresses by themselves.
func TestTwoLoopbackRuns(t *testing.T) {
	var runs []*process
	for range 3 {
		runs = append(runs, start(t, "--loopback", "-s", "1MiB", "-D", "500ms", "--json", "-"))
	}
	for _, p := range runs {
		p.ends(t, waitLimit, 0)
		require.Len(t, results(t, p), 1)
	}
}

// TestExplainsWhatThereIs: -v explains an ideal and a rate found where there are such.
func TestExplainsWhatThereIs(t *testing.T) {
	explained := func(args ...string) string {
		p := start(t, append(args, "--loopback", "--addr", own(0), "-s", "1MiB", "-n", "1", "--warmup", "0", "-v")...)
		p.ends(t, waitLimit, 0)
		require.NotContains(t, p.stdout.String(), "0 bit/s")
		require.NotContains(t, p.stdout.String(), " 1 intervals")
		return p.stdout.String()
	}
	require.Contains(t, explained("--rtt", "1ms"), "ideal 1 ms = RTT 1 ms")
	require.NotContains(t, explained("--drop", "0.1%"), "\n  ideal")
}
