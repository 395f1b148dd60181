// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

func TestOutput(t *testing.T) {
	points, err := pointsOf(options{grid: "B", schemes: "sr-nack", sizes: "1MiB", drops: "0", seed: 1}, 1.0/1000)
	require.NoError(t, err)
	require.Len(t, points, 1)
	results, err := measureAll(points, 1, os.Stderr)
	require.NoError(t, err)
	require.InDelta(t, 1, results[0].OverIdeal.Avg, 0.001, "header bytes are in the ideal")
	dir := t.TempDir()
	require.NoError(t, result.Write(nil, filepath.Join(dir, "x.json"), results))
	require.NoError(t, writeMarkdown(filepath.Join(dir, "x.md"), results))
	data, err := os.ReadFile(filepath.Join(dir, "x.json"))
	require.NoError(t, err)
	var read []map[string]any
	require.NoError(t, json.Unmarshal(data, &read))
	for _, field := range []string{
		"version", "device", "backend", "reliability", "size_bytes", "chunk_bytes", "mtu", "channels", "workers",
		"iterations", "link", "completion_ns", "ideal_ns", "throughput_gbps", "packets", "chunks", "params", "verified",
		"seed", "environment",
	} {
		require.Contains(t, read[0], field)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []options{
		{grid: "C", schemes: "sr"}, {grid: "A", schemes: "tcp"}, {grid: "A", schemes: "sr", sizes: "big"}, {grid: "A", schemes: "sr", drops: "x"},
	} {
		_, err := pointsOf(o, 1)
		require.Error(t, err, "%+v", o)
	}
	for _, s := range []string{"", "0", "2", "1/0", "x/2"} {
		_, err := fractionOf(s)
		require.Error(t, err, s)
	}
}
