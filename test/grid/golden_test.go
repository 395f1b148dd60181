// SPDX-License-Identifier: Apache-2.0

//go:build grid

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

var update = flag.Bool("update", false, "write the golden values anew")

const goldenFile = "testdata/golden.json"

// A golden is what must come out of a point, to the nanosecond: the same seed gives
// the same decisions.
type golden struct {
	Avg      units.Duration `json:"avg_ns"`
	P99      units.Duration `json:"p99_ns"`
	Max      units.Duration `json:"max_ns"`
	Repeated uint64         `json:"repeated"`
	Parity   uint64         `json:"parity"`
}

// One fiftieth of both grids, against golden values and the goals. After a change that
// is meant to change decisions:
//
//	go test -tags=grid ./test/grid -run TestGolden -update
func TestGolden(t *testing.T) {
	var points []point
	for _, g := range []string{"A", "B"} {
		some, err := pointsOf(options{grid: g, schemes: "sr,sr-nack,ec-xor,ec-mds,adaptive", seed: 1}, 1.0/50)
		require.NoError(t, err)
		points = append(points, some...)
	}
	long := len(points)
	points = append(points, longPoints("sr-nack", "adaptive")...)
	results, err := measureAll(points, runtime.NumCPU(), os.Stderr)
	require.NoError(t, err)
	got := map[string]golden{}
	for i, r := range results {
		c := r.CompletionNs
		got[points[i].String()] = golden{c.Avg, c.P99, c.Max, r.Chunks.Retransmitted, r.Chunks.Parity}
		if r.Reliability == "adaptive" && r.Warmup > 0 {
			require.LessOrEqual(t, r.OverIdeal.Avg-r.OverIdeal.CI95, goalOf(r).avg, "%v misses its goal", &points[i])
		}
		if i >= long {
			require.LessOrEqual(t, r.OverIdeal.Avg, 1.1, "%v", &points[i])
		}
	}
	require.Len(t, got, len(points), "points have names of their own")
	if *update {
		data, err := json.MarshalIndent(got, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenFile, append(data, '\n'), 0o644))
		return
	}
	data, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	var want map[string]golden
	require.NoError(t, json.Unmarshal(data, &want))
	for i := range points {
		name := points[i].String()
		t.Run(name, func(t *testing.T) {
			g, ok := want[name]
			require.True(t, ok, "no golden value; make them with -update")
			require.Equal(t, g, got[name], fmt.Sprintf("seed %d", points[i].seed))
		})
	}
	require.Len(t, want, len(points), "golden values of points that are gone; make them with -update")
}

// longPoints are transfers of more packets on a channel than a message has, or the mark of a
// channel counts: one each, the first of a connection.
func longPoints(schemes ...string) (points []point) {
	for _, mtu := range []units.Bytes{1024, 4096} {
		for _, scheme := range schemes {
			points = append(points, point{
				network: network{rate: 10 * units.Gbit, rtt: 10 * units.Millisecond, mtu: mtu, chunk: 64 * units.KiB, headers: 64, channels: 1},
				grid:    fmt.Sprintf("long, MTU %d,", mtu), scheme: scheme, size: (1<<18 + 1<<16) * mtu, drop: 1e-2, burst: 1,
				transfers: 1, seed: 1, cold: true,
			})
		}
	}
	return points
}
