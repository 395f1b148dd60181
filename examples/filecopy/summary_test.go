// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestSummaries: each end says what it did; only the one that sends knows of repeats.
func TestSummaries(t *testing.T) {
	src, _ := randomFile(t, units.MiB)
	r := prepare(t, "recv", "--listen", "127.0.0.1:0", "--out", filepath.Join(t.TempDir(), "copy"), rdma(0))
	var received, sent stream
	r.cmd.Stdout = &received
	r.begin(t)
	s := prepare(t, "send", "--to", r.listening(t), src, rdma(1))
	s.cmd.Stdout = &sent
	s.begin(t)
	s.ends(t, waitLimit, 0)
	r.ends(t, waitLimit, 0)
	require.Regexp(t, `^received .*: 1 MiB in .*, SHA-256 agrees\n$`, received.String())
	require.Regexp(t, `^sent .*: 1 MiB in .*, SHA-256 agrees, \d+ of \d+ packets repeated\n$`, sent.String())
}
