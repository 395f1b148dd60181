// SPDX-License-Identifier: Apache-2.0

//go:build clang

package ebpf

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/switchfn/trim"
)

// TestObjectIsThatOfTheSource: clang 14 makes the object that is committed, instruction by instruction, from the source
// beside it: go test -tags clang ./dataplane/ebpf, with clang and libbpf-dev. Of another version the instructions
// differ; what it makes must decide as the committed object does.
func TestObjectIsThatOfTheSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trim.o")
	version, err := exec.Command("clang", "-dumpversion").Output()
	require.NoError(t, err, "apt-get install clang")
	headers, err := exec.Command("gcc", "-print-multiarch").Output()
	require.NoError(t, err, "apt-get install gcc")
	out, err := exec.Command("clang", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", "-target", "bpfel",
		"-I/usr/include/"+strings.TrimSpace(string(headers)), "-c", "bpf/trim.bpf.c", "-o", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	built, err := ebpf.LoadCollectionSpec(path)
	require.NoError(t, err)
	linked := committed(t)
	require.Equal(t, linked.Maps[trimMapMeters].ValueSize, built.Maps[trimMapMeters].ValueSize)
	if strings.HasPrefix(string(version), "14.") {
		require.Equal(t, fmt.Sprint(linked.Programs[trimProgTrim].Instructions), fmt.Sprint(built.Programs[trimProgTrim].Instructions), "go generate ./dataplane/ebpf")
	}
	start := trim.Meter{PSPerByte: 24_000, Overhead: 24, Limit: 60_000, Every: 7}
	require.Equal(t, -1, equal(t, built, 1, 10_000, 0, start, nil), "first packet that differs, seed 1")
}
