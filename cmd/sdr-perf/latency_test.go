// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLatency: two processes play ping-pong, on a bare path and on one with a delay.
func TestLatency(t *testing.T) {
	for _, more := range [][]string{nil, {"--rtt", "3ms"}} {
		s, to := startServer(t)
		p := start(t, append(append(to, "--latency", "-s", "64,10000", "-n", "60", "--warmup", "3", "--reliability", "sr", "--json", "-"), more...)...)
		p.ends(t, waitLimit, 0)
		s.ends(t, waitLimit, 0)
		all := results(t, p)
		require.Len(t, all, 2)
		for _, r := range all {
			c := r["completion_ns"].(map[string]any)
			require.EqualValues(t, 60, r["iterations"])
			require.Equal(t, true, r["latency"])
			require.Equal(t, true, r["verified"])
			require.LessOrEqual(t, c["p50"], c["p90"])
			require.Nil(t, c["p99"], "sixty have none")
			bare, _ := r["bare_udp_ns"].(map[string]any)
			if more != nil {
				require.Greater(t, c["min"], 3e6)
				require.Nil(t, bare, "nothing to compare an emulated link with")
				continue
			}
			require.Positive(t, bare["min"])
			require.LessOrEqual(t, bare["min"], bare["p50"])
		}
	}
	p := start(t, "--loopback", "--latency", "-t", "2")
	p.ends(t, waitLimit, exitUsage)
	require.Contains(t, p.errors(), "--latency has one transfer under way")
}
