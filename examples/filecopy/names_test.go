// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestNameFromSender: into a folder a copy comes under the original's name, and replaces nothing.
func TestNameFromSender(t *testing.T) {
	src, want := randomFile(t, 5000)
	dir := t.TempDir()
	for i, says := range []string{"", "already: name the file that the receiver is to write"} {
		r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", dir, rdma(0))
		s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
		s.ends(t, waitLimit, i)
		r.ends(t, waitLimit, i)
		require.Contains(t, s.errors(), says)
		onlyHolds(t, dir, "original")
	}
	got, err := os.ReadFile(filepath.Join(dir, "original"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

// TestPipes: stdin to stdout, with nothing but the content on it.
func TestPipes(t *testing.T) {
	_, want := randomFile(t, 3*units.MiB+5)
	r := prepare(t, "recv", "--listen", "127.0.0.1:0", "--out", "-", rdma(0))
	var got bytes.Buffer
	r.cmd.Stdout = &got
	r.begin(t)
	s := prepare(t, "send", "--to", r.listening(t), rdma(1), "-")
	s.cmd.Stdin = bytes.NewReader(want)
	s.begin(t)
	s.ends(t, waitLimit, 0)
	r.ends(t, waitLimit, 0)
	require.True(t, bytes.Equal(want, got.Bytes()), "%d bytes of %d", got.Len(), len(want))
	require.Contains(t, r.errors(), "received -: 3 MiB")
}
