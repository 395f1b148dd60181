// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/uc"
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
	a, b = pair(t, config{Type: verbs.UC, SRQ: true})
	receive(t, b, verbs.RecvWR{})
	send(t, a, writeImm(a, b, 0, 4096, 1))
	poll(t, b.RCQ, 1)
	return a, b
}

// opensEnv is how often TestOpenCloseLeaksNothing opens devices.
const opensEnv = "SDR_FAKEVERBS_OPENS"

// TestOpenCloseLeaksNothing opens devices many times, with a connection on them that has carried a message, and then the backend
// with tables and messages in them. No file is left, no page of a device is mapped, and on the device there is no object (see TestMain);
// TestEachCallFails looks at other memory.
func TestOpenCloseLeaksNothing(t *testing.T) {
	opens := number(t, opensEnv, 60)
	before := len(files(t))
	once := func() {
		a, b := pairOnce(t)
		require.NoError(t, a.Ctx.Close())
		require.NoError(t, b.Ctx.Close())
		require.NoError(t, verbs.FreeBuffer(a.Buf))
		require.NoError(t, verbs.FreeBuffer(b.Buf))
	}
	for range opens / 2 {
		once()
	}
	require.Len(t, files(t), before)
	mem, err := verbs.AllocBuffer(1 << 16)
	require.NoError(t, err)
	for range opens / 10 {
		d, err := uc.Open(uc.Config{Device: devB, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		region, err := d.Register(mem, backend.AccessRemoteWrite)
		require.NoError(t, err)
		for range 2 {
			table, err := d.NewTable(backend.TableConfig{Slots: 64, Generations: 4, MaxMessage: 1 << 16})
			require.NoError(t, err)
			for n := range uint64(8) {
				_, _, err := table.Expose(n, region, backend.Range{Length: 1 << 16})
				require.NoError(t, err)
			}
		}
		require.NoError(t, d.Close())
	}
	require.NoError(t, verbs.FreeBuffer(mem))
	require.Len(t, files(t), before)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.NotContains(t, string(maps), "memfd:mlx5")
}
