// SPDX-License-Identifier: Apache-2.0

//go:build clang

package ebpf

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
)

// TestObjectIsThatOfTheSource: Debian's clang-14 makes the object that is committed, instruction by instruction, from the
// source beside it: go test -tags clang ./dataplane/ebpf, with clang-14 and libbpf-dev.
func TestObjectIsThatOfTheSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trim.o")
	out, err := exec.Command("clang-14", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", "-target", "bpfel",
		"-I/usr/include/x86_64-linux-gnu", "-c", "bpf/trim.bpf.c", "-o", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	built, err := ebpf.LoadCollectionSpec(path)
	require.NoError(t, err)
	committed, err := loadTrim()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(built.Programs[trimProgTrim].Instructions), fmt.Sprint(committed.Programs[trimProgTrim].Instructions), "go generate ./dataplane/ebpf")
	require.Equal(t, built.Maps[trimMapMeters].ValueSize, committed.Maps[trimMapMeters].ValueSize)
}
