// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"fmt"
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

// pages is the size of the process's address space.
func pages(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(b), &n)
	require.NoError(t, err)
	return n
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
