// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFullDisk: output that is lost is no success.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	os.Stdout = full
	require.Equal(t, 1, run([]string{"version"}))
}
