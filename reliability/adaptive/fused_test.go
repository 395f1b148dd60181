// SPDX-License-Identifier: Apache-2.0

//go:build !race

package adaptive

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Go may fuse x*y+z where the processor can, and then decisions would differ between
// amd64 and arm64. Explicit conversions prevent it; this test finds those forgotten.
func TestNothingIsFusedOnARM64(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to compile with: ", err)
	}
	cmd := exec.Command(goTool, "build", "-gcflags=-S", "-o", os.DevNull, ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", listing)
	require.Contains(t, string(listing), "FMULD", "the listing shows floating-point code")
	for _, line := range regexp.MustCompile(`.*\bFN?M(ADD|SUB)[SD]\b.*`).FindAllString(string(listing), -1) {
		t.Errorf("fused: %s", line)
	}
}
