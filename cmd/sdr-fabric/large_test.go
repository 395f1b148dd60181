// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopo(t *testing.T) {
	out, err := command(t, "topo", "--topo", "leafspine:128x64x64,400G,1us,fail=16x4")
	require.NoError(t, err)
	for _, want := range []string{"8192 hosts, 192 switches", "16384     400 Gbit/s         1 µs       64", "8128        8.34 µs"} {
		require.Contains(t, out, want) // STrack's round trip is 8 µs, 8.34 with serialization
	}
}

// STrack's figures on 1024 hosts within their bounds: oblivious spraying is no
// worse where messages are short, failures cost little, an incast takes what its link takes.
func TestSTrackFigures(t *testing.T) {
	for name, largest := range map[string]string{"strack:9": "2MiB", "strack:13": "512KiB", "strack:14": "512KiB", "strack:19": "16MiB"} {
		out, err := command(t, "figure", name, "--scale", "1/8", "--largest", largest, "-q", "-o", t.TempDir())
		require.NoError(t, err, out)
		require.Contains(t, out, "RoCEv2 over STrack")
	}
}

// The figures over time and of collectives, small: their runs make points and drawings of all kinds.
func TestFiguresOverTime(t *testing.T) {
	for name, want := range map[string]string{
		"strack:1": "1 QP over 4", "strack:3": "longest delay of a last hop", "strack:4": "first mark heard", "strack:21": "RoCEv2, 4 QPs, over STrack, most",
		"strack:16": "STrack: last drop", "strack:20": "32 senders: mean from", "strack:25": "STrack: last over first - 1", "nscc:400g": "draft over htsim's after",
	} {
		dir := t.TempDir()
		out, err := command(t, "figure", name, "--scale", "1/64", "--largest", "1MB", "--seeds", "2", "--jobs", "1", "-q", "-o", dir)
		if err != nil { // values of so small a scale may be out of bounds: that is not this test's business
			require.ErrorContains(t, err, "out of their bounds", name)
		}
		require.Contains(t, out, want)
		drawn, err := filepath.Glob(filepath.Join(dir, "*.svg"))
		require.NoError(t, err)
		require.Len(t, drawn, 1)
	}
}
