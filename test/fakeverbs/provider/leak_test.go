// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// files are the process's open files.
func files(t *testing.T) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return list
}

// mappings is the number of the process's memory mappings.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return bytes.Count(b, []byte("\n"))
}

// pairOnce is a connection that has carried a message.
func pairOnce(t *testing.T) (a, b *end) {
	t.Helper()
	a, b = pair(t, config{typ: verbs.UC, srq: true})
	receive(t, b, verbs.RecvWR{})
	send(t, a, writeImm(a, b, 0, 4096, 1))
	poll(t, b.rcq, 1)
	return a, b
}
