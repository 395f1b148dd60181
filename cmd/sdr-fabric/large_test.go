// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

import (
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

// STrack's figures on 128 hosts within their bounds: oblivious spraying is no
// worse where messages are short, failures cost little, an incast takes what its link takes.
func TestSTrackFigures(t *testing.T) {
	for name, largest := range map[string]string{"strack:9": "2MiB", "strack:13": "2MiB", "strack:14": "2MiB", "strack:19": "16MiB"} {
		out, err := command(t, "figure", name, "--scale", "1/64", "--largest", largest, "-q", "-o", t.TempDir())
		require.NoError(t, err, out)
		require.Contains(t, out, "RoCEv2 over STrack")
	}
}
