// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type entry struct {
	mode, major, minor int64
	data               string
}

// read is a second, independent reading of the format, offset by offset.
func read(t *testing.T, b []byte) (names []string, entries map[string]entry) {
	t.Helper()
	entries = map[string]entry{}
	off := 0
	field := func(i int) int64 {
		v, err := strconv.ParseInt(string(b[off+6+8*i:off+14+8*i]), 16, 64)
		require.NoError(t, err)
		return v
	}
	for {
		require.Zero(t, off%4, "header alignment")
		require.Equal(t, "070701", string(b[off:off+6]))
		nameLen, size := int(field(11)), int(field(6))
		e := entry{mode: field(1), major: field(9), minor: field(10)}
		name := string(b[off+110 : off+110+nameLen-1])
		data := (off + 110 + nameLen + 3) &^ 3
		e.data = string(b[data : data+size])
		if name == "TRAILER!!!" {
			return names, entries
		}
		names, entries[name] = append(names, name), e
		off = (data + size + 3) &^ 3
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "skipped"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "a"), []byte("hello"), 0o640))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "skipped", "b"), nil, 0o644))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "sub", "link")))

	var buf bytes.Buffer
	a := NewWriter(&buf, runtime.GOARCH)
	a.File("/init", 0o755, []byte("x"))
	a.File("/init", 0o755, []byte("a second time"))
	a.CharDevice("/dev/console", 5, 1)
	a.Tree("/t", dir, func(rel string, d fs.DirEntry) bool { return d.Name() != "skipped" })
	require.NoError(t, a.Close())

	names, got := read(t, buf.Bytes())
	assert.Equal(t, []string{"init", "dev", "dev/console", "t", "t/sub", "t/sub/a", "t/sub/link"}, names)
	assert.Equal(t, entry{mode: 0o100755, data: "x"}, got["init"])
	assert.Equal(t, entry{mode: 0o020600, major: 5, minor: 1}, got["dev/console"])
	assert.Equal(t, entry{mode: 0o100640, data: "hello"}, got["t/sub/a"])
	assert.Equal(t, entry{mode: 0o120777, data: "a"}, got["t/sub/link"])
	assert.True(t, a.Has("/t/sub/a"))
}

func TestErrorsStick(t *testing.T) {
	a := NewWriter(io.Discard, runtime.GOARCH)
	a.CopyFile("/x", filepath.Join(t.TempDir(), "missing"))
	a.File("/y", 0o644, nil)
	assert.ErrorIs(t, a.Close(), fs.ErrNotExist)
}

func TestStaticProgramNeedsNothing(t *testing.T) {
	var buf bytes.Buffer
	a := NewWriter(&buf, runtime.GOARCH)
	script := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, a.Program("/bin/run", script))
	require.NoError(t, a.Close())
	names, _ := read(t, buf.Bytes())
	assert.Equal(t, []string{"bin", "bin/run"}, names)
}

// TestProgramOfAnotherArchitecture: a program that the VM's processor doesn't know is refused before the VM boots.
func TestProgramOfAnotherArchitecture(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, NewWriter(io.Discard, runtime.GOARCH).Program("/bin/x", self))
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	require.ErrorContains(t, NewWriter(io.Discard, other).Program("/bin/x", self), "build with GOARCH="+other)
}
