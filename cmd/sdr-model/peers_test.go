// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const peerTables = "../../docs/results/peers.md"

func TestReadPeers(t *testing.T) {
	text, err := os.ReadFile(peerTables)
	require.NoError(t, err)
	tables, err := readPeers(strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Len(t, tables, 2)
	require.Equal(t, []float64{0, 1e-4, 1e-3, 1e-2}, tables[0].drops)
	for _, want := range []string{"| SRT file mode, cold | 3.99 | 5.36 | 3.72 | > 109 |", "| TCP bbr, cold | 2.85 | 2.89 | 3.13 | 4.07 |"} {
		require.Contains(t, string(text), want, "measured anew: change the test, too")
	}
	require.Equal(t, []float64{3.99, 5.36, 3.72, stopped}, tables[0].rows["SRT file mode, cold"])
	require.Equal(t, []float64{2.85, 2.89, 3.13, 4.07}, tables[0].rows["TCP bbr, cold"])

	for _, bad := range []string{"", "# other", strings.Replace(string(text), "| TCP bbr |", "| TCP other |", 1), strings.Replace(string(text), "3.99", "fast", 1)} {
		_, err = readPeers(strings.NewReader(bad))
		require.Error(t, err)
	}
	_, err = readPeers(io.MultiReader(strings.NewReader(string(text)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "what was read before is not the whole file")
}

// TestPeersFigure: the picture in the README is what the command makes of the tables.
func TestPeersFigure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.svg")
	_, err := execute(t, "peers", peerTables, "--out", file)
	require.NoError(t, err)
	made, err := os.ReadFile(file)
	require.NoError(t, err)
	stored, err := os.ReadFile("../../docs/results/peers.svg")
	require.NoError(t, err)
	require.Equal(t, string(stored), string(made), "go run ./cmd/sdr-model peers docs/results/peers.md --out docs/results/peers.svg")
	require.NotEmpty(t, stored)
}
