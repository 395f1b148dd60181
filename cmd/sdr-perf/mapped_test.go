// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// mappedBytes is the size of the address space in use.
func mappedBytes(t *testing.T) units.Bytes {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var pages int64
	_, err = fmt.Sscan(string(b), &pages)
	require.NoError(t, err)
	return units.Bytes(pages * int64(os.Getpagesize()))
}
