// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestNobodyReads: the sender hears that the receiver's stdout is closed, and not that a process has died.
func TestNobodyReads(t *testing.T) {
	src, _ := randomFile(t, units.MiB)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	r := prepare(t, "recv", "--listen", "127.0.0.1:0", "--out", "-", rdma(0))
	r.cmd.Stdout = write
	r.begin(t)
	require.NoError(t, errors.Join(read.Close(), write.Close()))
	s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
	r.ends(t, 10*time.Second, exitFailure)
	s.ends(t, 5*time.Second, exitFailure)
	require.Contains(t, r.lastLine(), "broken pipe")
	require.Contains(t, s.lastLine(), "broken pipe")
}
