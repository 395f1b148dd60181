// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/watched"
)

// The test binary is sdr-perf itself when this is set, so that the ends can be real processes.
const asPerf = "SDR_PERF_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(asPerf) != "" {
		main()
	}
	os.Exit(m.Run())
}

// waitLimit bounds waits for processes that end, or go on, by themselves unless the code is wrong: a busy machine may let them stand for long.
const waitLimit = 2 * time.Minute

// A process is a running sdr-perf.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr watched.Buffer
	done           chan struct{}
	exit           int // after done
}

// start runs sdr-perf; the test ends it.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startTo(t, nil, args...)
}

// startTo is start with a file as standard output, if there is one.
func startTo(t *testing.T, stdout *os.File, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asPerf+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		p.exit = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) errors() string { return p.stderr.String() }

// ends waits for the process to end within d.
func (p *process) ends(t *testing.T, d time.Duration, status int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // which shows what it is doing
		<-p.done
		t.Fatalf("still running after %v; stderr: %s", d, p.errors())
	}
	require.Equal(t, status, p.exit, p.errors())
}

// lastLine is the error message.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.errors()), "\n")
	return lines[len(lines)-1]
}

// listening is the address that a server says it waits on.
func (p *process) listening(t *testing.T) string {
	t.Helper()
	const mark = "waiting for a client on "
	var rest string
	require.Eventually(t, func() bool {
		_, rest, _ = strings.Cut(p.errors(), mark)
		return strings.Contains(rest, "\n")
	}, waitLimit, 5*time.Millisecond, "no server")
	addr, _, _ := strings.Cut(rest, "\n")
	return addr
}

// own is loopback address i, which no other test process uses.
func own(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 192+pid>>14&31, pid>>7&127, pid&127<<1|i)
}

// freePort is a TCP port that nobody listens on.
func freePort(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}
