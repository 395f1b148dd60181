// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// apartEnv is set in a process that runs one test.
const apartEnv = "SDR_TEST_ALL_APART"

// apart runs the calling test beside others, in a process of its own, where it returns true. A session kills every child of
// its process that no command of its own waits for, so that two can't run in one process at a time.
func apart(t *testing.T) bool {
	if os.Getenv(apartEnv) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name()+" ")
	return false
}
