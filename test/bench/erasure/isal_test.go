// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWithoutISAL: who lacks compiler or library reads what to install, and nothing is left behind.
func TestWithoutISAL(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("PATH", t.TempDir()) // no gcc
	_, err := startISAL()
	require.ErrorContains(t, err, "apt-get install gcc libisal-dev")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}
