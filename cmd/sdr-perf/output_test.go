// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

// TestNothingMeasured: a run that measures nothing says why, and leaves the results of the one before as they are.
func TestNothingMeasured(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args   []string
		files  []string
		status int
	}{
		{[]string{"-p", freePort(t, own(1)), own(1)}, []string{"json", "csv", "plot", "pcap"}, exitFailure},
		{[]string{"--loopback", "--addr", own(0), "--pcap", filepath.Join(dir, "none", "x")}, []string{"json", "csv", "plot"}, exitUsage},
	} {
		args := append(c.args, "-s", "1KiB,2KiB")
		for _, file := range c.files {
			name := filepath.Join(dir, file+".svg")
			require.NoError(t, os.WriteFile(name, []byte("what the last run measured"), 0o644))
			args = append(args, "--"+file, name)
		}
		p := start(t, args...)
		p.ends(t, waitLimit, c.status)
		require.Equal(t, 1, strings.Count(p.errors(), "\n"), "an error is one line:\n%s", p.errors())
		for _, file := range c.files {
			b, err := os.ReadFile(filepath.Join(dir, file+".svg"))
			require.NoError(t, err)
			require.Equal(t, "what the last run measured", string(b), file)
		}
	}
}

// TestCaptureBegins: a capture begins with the first packet; of one without nothing is left that wasn't there.
func TestCaptureBegins(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.pcap")
	c, err := newCapture(name)
	require.NoError(t, err)
	require.NoError(t, c.close())
	require.NoFileExists(t, name)
	require.NoError(t, os.WriteFile(name, make([]byte, 1000), 0o644))
	for _, packets := range []bool{false, true} {
		c, err = newCapture(name)
		require.NoError(t, err)
		if packets {
			c.wire().Outbound(nil)
			c.wire().Inbound(nil)
		}
		require.NoError(t, c.close())
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Len(t, b, map[bool]int{false: 1000, true: 24}[packets], "the header of pcap")
	}
	_, err = newCapture(filepath.Dir(name))
	require.ErrorContains(t, err, "--pcap: open ")
	require.True(t, isUsage(err))
}

// TestFullDisk: what can't be printed is no success, and no mistake in the call.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, call := range []string{"--help", "--version", "version", "devices", "congestion", "doctor", "help compare", "completion bash"} {
		p := startTo(t, full, strings.Fields(call)...)
		p.ends(t, waitLimit, exitFailure)
		require.Equal(t, "sdr-perf: write /dev/stdout: no space left on device\n", p.errors(), call)
	}
	port := freePort(t, own(0))
	s := startTo(t, full, "--addr", own(0), "-p", port)
	s.listening(t)
	start(t, "--addr", own(1), "-p", port, "-s", "1KiB", "-n", "1", "--warmup", "0", own(0)).ends(t, waitLimit, 0)
	s.ends(t, waitLimit, exitFailure)
	require.Equal(t, 2, strings.Count(s.errors(), "\n"), s.errors())
}

func TestResultsSurviveFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	s, to := startServer(t)
	c := start(t, append(to, "-s", "1KiB,64MiB", "-n", "2", "--warmup", "0", "--rate", "50mbit", "--json", file)...)
	require.Eventually(t, func() bool { return strings.Contains(c.stdout.String(), "1 KiB") }, waitLimit, 5*time.Millisecond)
	require.NoError(t, s.cmd.Process.Kill())
	c.ends(t, waitLimit, exitFailure) // it may be connecting, which has a limit of 5 s
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []result.Result
	require.NoError(t, json.Unmarshal(b, &all))
	require.Len(t, all, 1, "the point that was complete")
}
