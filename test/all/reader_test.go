// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// talker in the environment makes this test binary a session with a step that runs a command, whose process id it puts into the folder
// that is talker's value, and prints lines until it is ended.
const talker = "SDR_TEST_ALL_TALKER"

func talk(dir string) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	return runPlan(ctx, []step{{name: "talks", budget: time.Minute, run: func(c *stepContext) error {
		ended := make(chan error, 1)
		go func() { ended <- c.check(nil, "sh", "-c", `echo $$ > "$0/left"; exec sleep 60`, dir) }()
		for {
			select {
			case err := <-ended:
				return err
			case <-time.After(time.Millisecond):
				if b, _ := os.ReadFile(filepath.Join(dir, "left")); len(b) > 0 {
					c.printf("talks")
				}
			}
		}
	}}}, newSession(dir, options{}, os.Stdout))
}

// TestReaderIsGone: when nobody reads what the command prints, as after "| head", it ends its commands and removes its folder.
func TestReaderIsGone(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), talker+"="+dir, "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	for range 2 { // the second comes when the command runs
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	require.Error(t, cmd.Wait())
	require.Equal(t, statusFailed, cmd.ProcessState.ExitCode(), "it ended by itself")
	requireGone(t, dir, "left")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}
