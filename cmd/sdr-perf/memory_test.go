// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// root makes a file system of the named files.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return dir
}

// TestAvailableMemory: a control group's limit counts, in both versions, in containers, and above the group.
func TestAvailableMemory(t *testing.T) {
	const meminfo = "MemTotal:  20000000 kB\nMemAvailable:    10000000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  units.Bytes
	}{
		"no groups": {map[string]string{"proc/meminfo": meminfo}, 10_000_000 * units.KiB},
		"version 2": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "5\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/memory.current": "600000\n",
			"sys/fs/cgroup/a/memory.stat": "anon 500000\ninactive_file 70000\nactive_file 30000\n",
		}, 500_000},
		"version 2 in a container": {map[string]string{
			"proc/self/cgroup":         "0::/only/the/host/knows\n",
			"sys/fs/cgroup/memory.max": "4096\n", "sys/fs/cgroup/memory.current": "96\n",
		}, 4000},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/x\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "700\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "900\n",
		}, 300},
		"above the limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10\n", "sys/fs/cgroup/memory.current": "11\n",
		}, 0},
	} {
		n, ok := availableMemory(root(t, c.files))
		require.True(t, ok, name)
		require.Equal(t, c.want, n, name)
	}
	_, ok := availableMemory(t.TempDir())
	require.False(t, ok)
}

func TestFitsMemory(t *testing.T) {
	dir := root(t, map[string]string{
		"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n", "sys/fs/cgroup/memory.current": "0\n",
	})
	require.NoError(t, fitsMemoryOf(dir, 0, 1))
	require.NoError(t, fitsMemoryOf(dir, 896*units.MiB, 1))
	require.NoError(t, fitsMemoryOf(dir, 56*units.MiB, 16))
	require.EqualError(t, fitsMemoryOf(dir, 897*units.MiB, 1), "--size 897 MiB: a buffer of that size and what goes with it don't fit into the 1 GiB of memory that are free here: choose a smaller size")
	require.EqualError(t, fitsMemoryOf(dir, 57*units.MiB, 16), "--size 57 MiB: 16 buffers of that size and what goes with them don't fit into the 1 GiB of memory that are free here: choose a smaller size, or fewer under way (--inflight, --qps)")
	require.Error(t, fitsMemoryOf(dir, maxSize, 1))
	require.Error(t, fitsMemoryOf(dir, maxSize, 256))
}
