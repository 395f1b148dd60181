// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/model"
)

// A message that is shorter than a chunk is lost with its own packets, not with those that a chunk could have.
func TestMessageShorterThanAChunk(t *testing.T) {
	out, err := execute(t, "plan", "--size", "1B,4KiB,4097B,64KiB,1MiB", "--drop", "0.01", "--samples", "5", "--json", "-")
	require.NoError(t, err)
	var objects []planObject
	require.NoError(t, json.Unmarshal([]byte(out), &objects))
	for i, packets := range []int64{1, 1, 2, 16, 16} {
		require.InEpsilon(t, float64(model.PacketDrop(0.01).Unit(packets)), objects[5*i].ChunkDrop, 1e-9, objects[5*i].SizeBytes)
	}
}

// A percentile beyond the samples is called what it is.
func TestFewSamplesAreSaid(t *testing.T) {
	for samples, says := range map[string]string{
		"1": ", 1 sample: p99 and p99.9 are the longest   scheme", "99": ", 99 samples: p99 and p99.9 are the longest   scheme",
		"100": ", 100 samples: p99.9 is the longest   scheme", "1000": ", 1000 samples   scheme",
	} {
		out, err := execute(t, "plan", "--size", "1B", "--drop", "0", "--samples", samples)
		require.NoError(t, err)
		require.Contains(t, strings.ReplaceAll(out, "\n", " "), says)
	}
}
