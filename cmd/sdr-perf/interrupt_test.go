// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
)

// An interrupt ends both ends at once, after the transfer under way, and shows what was measured. On a busy machine
// that may be nothing yet: then the interrupt comes later.
func TestInterrupt(t *testing.T) {
	for _, who := range []string{"client", "server", "loopback"} {
		t.Run(who, func(t *testing.T) {
			s, c := interrupt(t, who, 300*time.Millisecond)
			for pause := time.Second; !strings.Contains(c.errors(), "\nadaptive") && pause < 20*time.Second; pause *= 4 { // the row: what stands above has the size, too
				s, c = interrupt(t, who, pause)
			}
			switch who {
			case "client":
				require.Contains(t, s.lastLine(), "the client: interrupted")
				require.Equal(t, "sdr-perf: interrupted", c.lastLine())
			case "server":
				require.Equal(t, "sdr-perf: interrupted", s.lastLine())
				require.Contains(t, c.lastLine(), "the server: interrupted")
			}
			require.Regexp(t, `(?m)^adaptive +64 KiB .* ok, incomplete$`, c.errors())
			all := results(t, c)
			require.Len(t, all, 1)
			require.Equal(t, true, all[0]["incomplete"])
			require.Equal(t, true, all[0]["verified"])
			require.Positive(t, all[0]["iterations"])
			require.Positive(t, all[0]["packets"].(map[string]any)["received"])
		})
	}
}

// interrupt runs a server and a client, or both in one process, and interrupts one so long after it has begun to measure. The
// rate is so low that transfers end in the time of grace on a busy machine, too.
func interrupt(t *testing.T, who string, pause time.Duration) (s, c *process) {
	measure := []string{"-s", "64KiB", "--warmup", "0", "-n", "100000", "--rate", "20mbit", "--rtt", "10ms", "--json", "-"}
	if who == "loopback" {
		c = start(t, append(measure, "--loopback", "--addr", own(0))...)
	} else {
		var to []string
		s, to = startServer(t)
		c = start(t, append(to, measure...)...)
	}
	require.Eventually(t, func() bool { return strings.Contains(c.errors(), "scheme") }, waitLimit, 5*time.Millisecond, "nothing runs")
	time.Sleep(pause)
	p, status := c, exitInterrupted
	if who == "server" {
		p, status = s, exitFailure
	}
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	c.ends(t, waitLimit, status)
	if s != nil {
		s.ends(t, waitLimit, exitFailure+exitInterrupted-status)
	}
	return s, c
}

// TestInterruptedResults: what was measured until an interrupt, and can't be written, is no secret of it.
func TestInterruptedResults(t *testing.T) {
	c := start(t, "--loopback", "--addr", own(0), "-s", "4KiB,4MiB", "--warmup", "0", "-n", "20", "--rate", "20mbit", "--rtt", "10ms", "--json", "/dev/full")
	require.Eventually(t, func() bool { return strings.Contains(c.stdout.String(), "\nadaptive") }, waitLimit, 5*time.Millisecond)
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	c.ends(t, waitLimit, exitInterrupted)
	require.Equal(t, "sdr-perf: interrupted: write /dev/full: no space left on device", c.lastLine())
}

// TestInterruptOfBothEnds: in a loopback run the client may hear of the server's interrupt, which is its own, before a transfer ends with the
// time of grace, and has nothing else to say of it. Any other reason that the server gives is one more failure.
func TestInterruptOfBothEnds(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	lost := fmt.Errorf("use qp 1: %w", &oob.PeerError{Code: oob.CodeRejected, Reason: errInterrupted.Error()})
	wrong := fmt.Errorf("use qp 1: %w", &oob.PeerError{Code: oob.CodeRejected, Reason: "wrong content"})
	require.EqualError(t, asTold(ctx, lost, "server"), "the server: interrupted")
	interrupt(errInterrupted)
	require.ErrorIs(t, asTold(ctx, lost, "server"), context.Canceled)
	require.Equal(t, wrong, asTold(ctx, wrong, "server"))
}

// TestInterruptWhileConnecting: a server that has yet to say anything hears the same word of an interrupt as later.
func TestInterruptWhileConnecting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	l, err := oob.Listen(ctx, own(0)+":0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	c := start(t, "--addr", own(1), l.Addr().String())
	s, err := l.Accept(ctx)
	require.NoError(t, err)
	defer s.Close()
	time.Sleep(100 * time.Millisecond) // it waits for an answer then
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	c.ends(t, waitLimit, exitInterrupted)
	_, err = s.Recv(ctx)
	require.ErrorContains(t, err, "interrupted")
}

// A transfer that doesn't end in the time of grace is given up: what came before it is shown.
func TestInterruptInLongTransfer(t *testing.T) {
	const givenUp = 45 * time.Second // the time of grace is 2 s, --timeout more than this, and the transfer would take 107 s
	s, c := underWay(t, "-s", "64KiB,64MiB", "-n", "1", "--warmup", "0", "--rate", "5mbit", "--timeout", "60s")
	first := func() bool { return strings.Contains(c.stdout.String(), "\nadaptive") } // the row: what stands above has the size, too
	require.Eventually(t, first, waitLimit, 5*time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	c.ends(t, givenUp, exitInterrupted)
	s.ends(t, givenUp, exitFailure)
	require.Contains(t, s.lastLine(), "interrupted", "the server is told why, although the time of grace is over")
	require.Regexp(t, `(?m)^adaptive +64 KiB .* ok$`, c.stdout.String())
	require.NotRegexp(t, `(?m)^adaptive +64 MiB`, c.stdout.String(), "nothing of it was measured")

	s, c = underWay(t, "-s", "64MiB", "-n", "1", "--warmup", "0", "--rate", "5mbit", "--timeout", "60s")
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.ends(t, givenUp, exitInterrupted)
	c.ends(t, givenUp, exitFailure)
	require.Contains(t, c.lastLine(), "the server: interrupted")

	s, c = underWay(t, "-s", "64MiB", "-t", "2", "-n", "9", "--warmup", "0", "--rate", "5mbit", "--timeout", "60s")
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	c.ends(t, givenUp, exitInterrupted)
	s.ends(t, givenUp, exitFailure)
	require.Contains(t, s.lastLine(), "the client: interrupted")
}

// TestHangup: what was measured is written when the terminal goes, which may be said twice, and when nobody reads the table any more.
func TestHangup(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	defer write.Close()
	measure := func(stdout *os.File, n string) (p *process, file string) {
		file = filepath.Join(t.TempDir(), "results.json")
		return startTo(t, stdout, "--loopback", "--addr", own(0), "-s", "4KiB,8KiB", "--warmup", "0", "-n", n, "--rate", "20mbit", "--rtt", "10ms", "--json", file), file
	}
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP) // so that a process that is started doesn't ignore it, as under nohup
	defer signal.Stop(taken)
	p, file := measure(nil, "20")
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "\nadaptive") }, waitLimit, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	_ = p.cmd.Process.Signal(syscall.SIGHUP) // it may have ended
	p.ends(t, waitLimit, exitInterrupted)
	require.FileExists(t, file)

	p, file = measure(write, "1")
	p.ends(t, waitLimit, exitFailure)
	require.Contains(t, p.lastLine(), "broken pipe")
	require.FileExists(t, file)
}
