// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// drawn is a result with n times of a lognormal distribution.
func drawn(seed uint64, n int, median, spread float64) *result.Result {
	h, r := newHistogram(), rand.New(rand.NewPCG(seed, 1))
	for range n {
		h.add(units.Duration(median * math.Exp(spread*r.NormFloat64())))
	}
	yes := true
	return &result.Result{
		Version: result.Version, Device: "userroce", Reliability: "sr", SizeBytes: 64 * units.KiB, Inflight: 1, QPs: 1, Iterations: n, MTU: 4096,
		CompletionNs: h.summary(), Histogram: h.filled(), ThroughputGbps: 8 * 65536 / h.mean(), Verified: &yes,
		Environment: result.Environment{Go: "go1.26.8", Kernel: "6.1.0", CPUs: 2, Arch: "amd64"},
	}
}

// save writes results as --json does.
func save(t *testing.T, list ...*result.Result) string {
	t.Helper()
	b, err := json.Marshal(list)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, os.WriteFile(name, b, 0o644))
	return name
}

// runCompare runs the command in this process.
func runCompare(args ...string) (out string, status int, err error) {
	return runComparing(nil, args...)
}

func runComparing(stdin io.Reader, args ...string) (out string, status int, err error) {
	var b bytes.Buffer
	running := false
	c := newCommand(&running, (*call).run)
	c.SetArgs(append([]string{"compare"}, args...))
	c.SetOut(&b)
	c.SetIn(stdin)
	err = c.Execute()
	return b.String(), statusOf(err, running), err
}

// TestComparePipe: what sdr-perf --json - writes can be compared without a file.
func TestComparePipe(t *testing.T) {
	file := save(t, drawn(1, 200, 1000, 0.1))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, args := range [][]string{{file, "-"}, {"-", file}} {
		out, status, err := runComparing(bytes.NewReader(text), args...)
		require.NoError(t, err)
		require.Zero(t, status)
		require.Contains(t, out, "no difference")
	}
	_, status, err := runComparing(bytes.NewReader(text), "-", "-")
	require.Equal(t, exitUsage, status)
	require.ErrorContains(t, err, "only one of the two can be -")
	_, status, err = runComparing(strings.NewReader("junk"), "-", file)
	require.Equal(t, exitUsage, status)
	require.ErrorContains(t, err, "standard input is not what sdr-perf --json writes")
}

// TestCompareTable: what two files come to, as a table and as JSON.
func TestCompareTable(t *testing.T) {
	before, after := drawn(1, 2000, 100_000, 0.3), drawn(2, 1000, 120_000, 0.4)
	after.MTU, after.Environment.Kernel = 1024, "6.12.0"
	small, same := drawn(3, 50, 20_000, 0.1), drawn(4, 50, 20_000, 0.1)
	small.SizeBytes, same.SizeBytes, small.MTU = 4*units.KiB, 4*units.KiB, 4096
	a, b := save(t, before, small), save(t, after, same)
	out, status, err := runCompare(a, b)
	require.Equal(t, exitShort, status, "%v", err)
	require.ErrorContains(t, err, "fell short: sr 64 KiB: average +")
	require.NotContains(t, err.Error(), "4 KiB: average -")
	compare(t, "compare.txt", out)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), usage.Columns+1, line)
	}
	out, _, _ = runCompare(a, b, "--wide")
	require.Contains(t, out, " p99                       Gbit/s times are\n")
	require.Contains(t, out, " +61.0% [+43.4%, +87.5%]   -20.4% slower\n")
	out, status, err = runCompare(a, b, "--tolerance", "50%", "--json", "-")
	require.NoError(t, err)
	require.Zero(t, status)
	compare(t, "compare.json", out)
	_, status, _ = runCompare(b, a)
	require.Zero(t, status, "faster is fine")
}

// TestCompareRefuses: what can't be compared is refused with the reason.
func TestCompareRefuses(t *testing.T) {
	plain := func(change func(r *result.Result)) string {
		r := drawn(1, 200, 1000, 0.1)
		change(r)
		return save(t, r)
	}
	a := plain(func(*result.Result) {})
	no := false
	for says, b := range map[string]string{
		"hasn't (it has sr 64 KiB, emulated link: RTT 1 ms, drop 0.01 per packet)": plain(func(r *result.Result) { r.Link = &result.Link{RTTNs: units.Millisecond, Drop: 0.01} }),
		"hasn't (it has sr 64 KiB, -t 16 -q 2, no emulated link)":                  plain(func(r *result.Result) { r.Inflight, r.QPs = 16, 2 }),
		"hasn't (it has sr 64 KiB, --latency, no emulated link)":                   plain(func(r *result.Result) { r.Latency = true }),
		"hasn't (it has adaptive 64 KiB, no emulated link)":                        plain(func(r *result.Result) { r.Reliability = "adaptive" }),
		"is incomplete":              plain(func(r *result.Result) { r.Incomplete = true }),
		"its times are of nothing":   plain(func(r *result.Result) { r.Verified = &no }),
		"which have no spread":       plain(func(r *result.Result) { r.Iterations = 1 }),
		"has version 2":              plain(func(r *result.Result) { r.Version = 2 }),
		"it has no results":          save(t),
		"has version 0":              save(t, nil),
		"twice, so that nobody know": save(t, drawn(1, 20, 1000, 0.1), drawn(2, 20, 1000, 0.1)),
		"measure the same points":    save(t, drawn(1, 20, 1000, 0.1), &result.Result{Version: result.Version, Reliability: "ec-xor", Iterations: 5, CompletionNs: result.Completion{Avg: 1}}),
		"have no spread":             save(t, &result.Result{Version: result.Version, Reliability: "sr", Iterations: 5}),
		"is not sdr-perf's JSON":     save(t, &result.Result{Version: result.Version, Iterations: 5}),
	} {
		_, status, err := runCompare(a, b)
		require.ErrorContains(t, err, says)
		require.Equal(t, exitUsage, status, "%v", err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	for content, says := range map[string]string{"junk": "invalid character", "{}": "there is a JSON object", `[{"iterations":"x"}]`: "iterations is a JSON string"} {
		require.NoError(t, os.WriteFile(junk, []byte(content), 0o644))
		_, status, err := runCompare(a, junk)
		require.ErrorContains(t, err, "is not what sdr-perf --json writes, an array of results: "+says)
		require.NotContains(t, err.Error(), "Go ")
		require.Equal(t, exitUsage, status, "%v", err)
	}
	_, status, err := runCompare(a, junk+"2")
	require.Equal(t, exitUsage, status, "%v", err)
	for _, args := range [][]string{{a}, {a, a, "--tolerance", "2"}, {a, a, "--tolerance", "x"}} {
		_, status, err := runCompare(args...)
		require.Equal(t, exitUsage, status, "%v", err)
	}
}

// TestCompareHeaders: what follows from the addresses is no other point, but is said, unless the file of an older release doesn't tell.
func TestCompareHeaders(t *testing.T) {
	with := func(headers units.Bytes) string {
		r := drawn(1, 200, 1000, 0.1)
		r.Link = &result.Link{RTTNs: units.Millisecond, HeaderBytes: headers}
		return save(t, r)
	}
	for _, c := range []struct {
		before, after units.Bytes
		says          bool
	}{{0, 64, false}, {64, 64, false}, {64, 84, true}} {
		out, _, err := runCompare(with(c.before), with(c.after), "--json", "-")
		require.NoError(t, err)
		require.Equal(t, c.says, strings.Contains(out, "headers 64 B → 84 B"), out)
	}
}

// TestRunInJSON: a result says when, where and by which call it was measured.
func TestRunInJSON(t *testing.T) {
	s, to := startServer(t)
	args := append(to, "-s", "4KiB", "-n", "2", "--warmup", "0", "--json", "-")
	begun := time.Now()
	c := start(t, args...)
	c.ends(t, waitLimit, 0)
	s.ends(t, waitLimit, 0)
	var all []result.Result
	require.NoError(t, json.Unmarshal([]byte(c.stdout.String()), &all))
	r := all[0].Run
	require.NotNil(t, r)
	require.WithinRange(t, r.Start, begun.Add(-time.Second), time.Now())
	require.Equal(t, args, r.Command[1:])
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, host, r.Client)
	require.Equal(t, own(0), r.Server)
	require.Contains(t, r.ClientAddr, "127.")
	require.Contains(t, r.ServerAddr, own(0)+":")
	require.Nil(t, reportOf(&all[0]).Result.Run, "the server needn't know the call")
	require.NotNil(t, all[0].Run)
}
