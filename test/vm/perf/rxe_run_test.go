// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/watched"
)

// A command is a running program.
type command struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer // to be read after finish
	stderr watched.Buffer
	done   chan error
}

// start runs a program of the VM; the test ends it.
func start(t testing.TB, argv ...string) *command {
	t.Helper()
	c := &command{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan error, 1)}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	require.NoError(t, c.cmd.Start())
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// finish waits for the program's end, with success, and returns what it printed.
func (c *command) finish(t testing.TB) string {
	t.Helper()
	require.NoError(t, c.wait(t), "%s\n%s%s", strings.Join(c.cmd.Args, " "), c.stdout.String(), c.stderr.String())
	return c.stdout.String()
}

// wait waits for the program's end.
func (c *command) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-c.done:
		return err
	case <-time.After(waitLimit):
		_ = c.cmd.Process.Kill()
		<-c.done
		t.Fatalf("%s did not end within %v\n%s%s", strings.Join(c.cmd.Args, " "), waitLimit, c.stdout.String(), c.stderr.String())
		return nil
	}
}

// listening waits until a server waits at a TCP port: the kernel lists its socket as in state 0A.
func (c *command) listening(t testing.TB, isListening func() bool) {
	t.Helper()
	for until := time.Now().Add(waitLimit); !isListening(); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-c.done:
			t.Fatalf("%s ended: %v\n%s%s", strings.Join(c.cmd.Args, " "), err, c.stdout.String(), c.stderr.String())
		default:
		}
		require.True(t, time.Now().Before(until), "%s does not listen", c.cmd.Args[0])
	}
}

// both runs a server, and a client once it listens on the port, each at its place. It returns what the
// client printed, in the VM where the client ran.
func both(t *testing.T, port string, server, client []string) string {
	t.Helper()
	here.meet(t, "before "+port)
	var s *command
	if !here.pair || here.server {
		s = start(t, server...)
		s.listening(t, func() bool { return listens(t, port) })
	}
	here.meet(t, "server at "+port)
	out := ""
	if !here.server {
		c := start(t, client...)
		out = c.finish(t)
		if text := c.stderr.String(); text != "" {
			t.Logf("%s", text)
		}
	}
	if s != nil {
		s.finish(t)
	}
	here.meet(t, "after "+port)
	return out
}
