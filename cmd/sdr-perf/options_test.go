// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// optionSet are the options that say how is measured, each as people combine them, and what the JSON says then.
var optionSet = []struct {
	args   string
	points int
	has    map[string]any
}{
	{"-s 4KiB,64KiB -n 5 --warmup 0 --wide", 2, map[string]any{"inflight": 1.0, "iterations": 5.0}},
	{"-s 4KiB -t 4 -q 2 -n 20 --reliability sr,adaptive", 2, map[string]any{"inflight": 4.0, "qps": 2.0, "iterations": 40.0}},
	{"-s 64KiB -t 2 -b -n 10", 1, map[string]any{"bidirectional": true, "inflight": 2.0}},
	{"-s 4KiB --latency -n 20 --reliability sr", 1, map[string]any{"latency": true, "iterations": 20.0}},
	{"-s 64KiB -n 3 --sweep drop=1e-3..1e-2/2 --rtt 1ms --rate 1g --reliability sr-nack", 2, map[string]any{"iterations": 3.0}},
	{"-s 64KiB -n 3 -m 1024 --chunk 4k --unit 2k --channels 2 --reliability ec-mds --ec 16,4", 1, map[string]any{"mtu": 1024.0, "channels": 2.0}},
	{"-s 64KiB -n 3 --burst 4 --drop 1% --reorder 1% --duplicate 1% --rtt 1ms --jitter 300us --rate 1g", 1, map[string]any{"iterations": 3.0}},
}

// runOptions runs the option set against a server that stays, with the ends where begin starts them.
func runOptions(t *testing.T, server, client []string, begin func(server bool, args ...string) *process) {
	s := begin(true, append([]string{"--keep"}, server...)...)
	s.listening(t)
	dir := t.TempDir()
	for _, o := range optionSet {
		csv, plot := filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.svg")
		args := append(strings.Fields(o.args), "--json", "-", "--csv", csv)
		if o.points > 1 && strings.Contains(o.args, "--sweep") {
			args = append(args, "--plot", plot)
		}
		c := begin(false, append(args, client...)...)
		c.ends(t, waitLimit, 0)
		all := results(t, c)
		require.Len(t, all, o.points, o.args)
		for _, r := range all {
			require.Equal(t, true, r["verified"], o.args)
			for field, want := range o.has {
				require.Equal(t, want, r[field], "%s: %s", o.args, field)
			}
		}
		lines, err := os.ReadFile(csv)
		require.NoError(t, err)
		require.Equal(t, o.points+1, strings.Count(string(lines), "\n"))
	}
	picture, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	require.NoError(t, err)
	require.Contains(t, string(picture), "<svg")
	done := func() bool { return strings.Count(s.stdout.String(), " done: ") == len(optionSet) }
	require.Eventually(t, done, waitLimit, 5*time.Millisecond, "%s", s.stdout.String())
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.ends(t, waitLimit, exitInterrupted)
}

// TestOptionsBetweenProcesses runs the option set between two processes.
func TestOptionsBetweenProcesses(t *testing.T) {
	port := freePort(t, own(0))
	runOptions(t, []string{"--addr", own(0), "-p", port}, []string{"--addr", own(1), "-p", port, own(0)},
		func(_ bool, args ...string) *process { return start(t, args...) })
}

// measured are the words of a run's output that differ from run to run: times, rates, shares of packets.
var measured = regexp.MustCompile(`\b[0-9][0-9.]*(e-[0-9]+)?( ns| µs| ms| s|%)?`)

// TestTableWhole: all that a run prints, with what was measured masked.
func TestTableWhole(t *testing.T) {
	c := start(t, "--loopback", "--addr", own(0), "-s", "4KiB,64KiB", "-n", "150", "--warmup", "0", "--reliability", "sr,adaptive", "--rtt", "1ms", "--workers", "1")
	c.ends(t, waitLimit, 0)
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(c.stdout.String(), "\n"), "\n") {
		if i > 2 { // the header, and what the run is of, are given
			fields := strings.Fields(line)
			require.GreaterOrEqual(t, len(fields), 10, line)
			line = strings.Join(append(fields[:4:4], measured.ReplaceAllString(strings.Join(fields[4:], " "), "#")), " ")
		}
		b.WriteString(line + "\n")
	}
	compare(t, "table.txt", b.String())
}
