// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
)

// insideEnv has this program be the command.
const insideEnv = "SDR_FAKEVERBS_RUN"

func TestMain(m *testing.M) {
	fakeverbs.Init()
	if os.Getenv(insideEnv) != "" {
		os.Unsetenv(insideEnv)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSignals: a signal is the program's to handle, which ends as it likes, and nothing is left behind.
func TestSignals(t *testing.T) {
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM} {
		dir := t.TempDir()
		script := "trap 'cat /sys/class/infiniband/fake0/node_type; exit 7' " + name + "; echo ready; while :; do sleep 0.01; done"
		cmd := exec.Command("/proc/self/exe", "--", "sh", "-c", script)
		cmd.Env = append(os.Environ(), insideEnv+"=1", "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var errors bytes.Buffer
		cmd.Stderr = &errors
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		require.Equal(t, "ready", lines.Text())
		to := cmd.Process.Pid
		if s == syscall.SIGINT {
			to = -to // as the terminal does
		}
		require.NoError(t, syscall.Kill(to, s))
		require.True(t, lines.Scan(), "%s: the program has lost its devices: %s", name, &errors)
		require.Equal(t, "1: CA", lines.Text())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, 7, exit.ExitCode(), "%s: %s", name, &errors)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
