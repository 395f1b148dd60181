// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOtherSystems: what a user imports asks this package, and elsewhere this package doesn't compile and says why.
func TestOtherSystems(t *testing.T) {
	run := func(system string, args ...string) (string, error) {
		goos, goarch, _ := strings.Cut(system, "/")
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, system := range []string{"linux/amd64", "linux/arm64"} {
		out, err := run(system, "build", ".")
		require.NoError(t, err, out)
	}
	for _, system := range []string{"darwin/arm64", "windows/amd64", "linux/386", "linux/riscv64"} {
		out, err := run(system, "build", ".")
		require.Error(t, err, system)
		require.Contains(t, out, `"go-sdr runs on Linux on amd64 and arm64 only: build there`, system)
		// Each of these has names of its own that are missing there.
		out, err = run(system, "list", "-f", "{{.ImportPath}} {{.Deps}}", "../../sdr", "../../oob", "../../verbs", "../../backend/userroce")
		require.NoError(t, err, out)
		require.Equal(t, 4, strings.Count(out, "/internal/platform "), "%s: %s", system, out)
	}
	// What knows nothing of the system counts in ints of 64 bits.
	for _, system := range []string{"linux/386", "linux/arm", "linux/mips", "linux/mipsle"} {
		out, err := run(system, "list", "-f", "{{.ImportPath}} {{.Deps}}", "../../fabric/workload", "../../reliability/adaptive")
		require.NoError(t, err, out)
		require.Equal(t, 2, strings.Count(out, "/internal/platform "), "%s: %s", system, out)
	}
}
