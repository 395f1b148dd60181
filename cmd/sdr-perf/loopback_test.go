// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTwoLoopbackRuns: two runs at a time find addresses by themselves.
func TestTwoLoopbackRuns(t *testing.T) {
	var runs []*process
	for range 3 {
		runs = append(runs, start(t, "--loopback", "-s", "1MiB", "-D", "500ms", "--json", "-"))
	}
	for _, p := range runs {
		p.ends(t, 20*time.Second, 0)
		require.Len(t, results(t, p), 1)
	}
}

// TestNoRate: a link without a rate has none in the explanation.
func TestNoRate(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "1MiB", "-n", "1", "--warmup", "0", "--rtt", "1ms", "-v")
	p.ends(t, 20*time.Second, 0)
	require.NotContains(t, p.stdout.String(), "0 bit/s")
	require.Contains(t, p.stdout.String(), "ideal 1 ms = RTT 1 ms")
}
