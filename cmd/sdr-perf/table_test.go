// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sampleResults are results with round and with awkward numbers.
func sampleResults() []*result.Result {
	ideal, over, yes := 25*units.Millisecond, 1.0337, true
	return []*result.Result{
		{
			Version: result.Version, Device: "userroce", Reliability: "adaptive", SizeBytes: 64 * units.MiB, Iterations: 1200, Inflight: 1, QPs: 1,
			CompletionNs: result.Completion{Avg: 25_842_500, Stddev: 1_000_000, P50: 25_800_000, P90: 26_000_000, P99: 27_123_456, P999: 30_000_001, Max: 31_000_000, Min: 25_700_000},
			Histogram:    []result.Bucket{{UpTo: 25_800_000, Count: 700}, {UpTo: 31_000_000, Count: 500}}, IdealNs: &ideal, TOverIdeal: &over, ThroughputGbps: 20.775, MessageRate: 38.7,
			Link:    &result.Link{RTTNs: 20 * units.Millisecond, RateBps: 100 * units.Gbit, Drop: 1e-3, Burst: 1},
			Packets: result.Packets{Sent: 100_000, Received: 99_900, DroppedEmulated: 100}, Chunks: result.Chunks{UnitBytes: 4096, Sent: 20_000, Retransmitted: 20},
			CPU: result.CPU{Sender: result.CPUTime{User: units.Second, Sys: units.Millisecond}, Receiver: &result.CPUTime{User: units.Second}, NsPerPacket: 20_010, Load: 0.8}, Verified: &yes,
		},
		{
			Version: result.Version, Device: "userroce", Reliability: "sr-nack", SizeBytes: 4096, Iterations: 999_999, Inflight: 16, QPs: 2, Bidirectional: true,
			CompletionNs: result.Completion{Avg: 12_345_678_901, P50: 999_999, P99: 123_456_789}, ThroughputGbps: 123.4567, MessageRate: 234_567.8,
			Packets: result.Packets{Sent: 1000, Received: 800, LostUnseen: 200}, Histogram: []result.Bucket{}, Verified: &yes,
		},
		{Version: result.Version, Device: "rxe0", Reliability: "none", SizeBytes: 0, Histogram: []result.Bucket{}, Incomplete: true},
	}
}

func compare(t *testing.T, name, have string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(have), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), have, "go test -update writes it anew")
}

func TestTables(t *testing.T) {
	for name, columns := range map[string][]column{"narrow.txt": narrow, "wide.txt": wide} {
		var b strings.Builder
		require.NoError(t, writeRow(&b, columns, func(c column) string { return c.head }))
		for _, r := range sampleResults() {
			require.NoError(t, writeRow(&b, columns, func(c column) string { return c.text(r) }))
		}
		compare(t, name, b.String())
		if name == "narrow.txt" {
			for line := range strings.Lines(b.String()) {
				if strings.HasSuffix(line, " ok\n") || strings.HasSuffix(line, " data\n") {
					require.LessOrEqual(t, utf8.RuneCountInString(line), 81, "%s and a line feed", line)
				}
			}
		}
	}
}

// TestWhatIsMeasuredFits: what stands above the table is within 80 columns, and one line where that will do.
func TestWhatIsMeasuredFits(t *testing.T) {
	l := link{RTT: 5 * units.Millisecond, Rate: 200 * units.Mbit, Queue: 256 * units.KiB, MarkAbove: 50 * units.KiB, Drop: 0.001}
	require.Equal(t, "no emulated link; one transfer at a time", sideBySide((&link{}).describe(), "one transfer at a time"))
	for line := range strings.Lines(sideBySide(l.describe(), "1 transfer under way on 2 connections")) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), usage.Columns+1, line)
	}
}

// TestWideHasAllColumns: --wide shows what the narrow table of the same points does, and more.
func TestWideHasAllColumns(t *testing.T) {
	for _, p := range []params{{}, {Latency: true}, {Congestion: "auto", QPs: 2}, {Congestion: "auto", QPs: 1}, {Inflight: 1, QPs: 1, Link: link{Paths: "1gbit"}}} {
		heads := func(wide bool) (all []string) {
			o, err := (&local{wide: wide}).newOutput(nil, &p)
			require.NoError(t, err)
			for _, c := range o.columns {
				all = append(all, c.head)
			}
			return all
		}
		require.Subset(t, heads(true), heads(false))
		require.Subset(t, heads(true), []string{"avg", "p99.9", "msg/s", "repeated", "user", "ns/pkt"})
		require.Equal(t, "data", heads(true)[len(heads(true))-1], "what is as long as it likes is the last")
	}
}

// TestSweptColumnFits: what is swept has a column of its own, which holds what is typed.
func TestSweptColumnFits(t *testing.T) {
	for v, want := range map[float64]string{0: "no limit", 100e6: "100mbit", 2.5e9: "2.5gbit"} {
		r := &result.Result{Link: &result.Link{RateBps: units.Rate(v)}}
		c := (&sweep{key: "rate"}).columns([]column{columnN})[0]
		require.Equal(t, want, c.text(r))
		require.LessOrEqual(t, len(want), c.width)
	}
}

// TestSlowRates: what small messages carry over a long link says something, and fits its column.
func TestSlowRates(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 123.4567: "123.457", 0.8649: "0.865", 0.0864: "0.086", 0.00995: "0.010", 0.00994: "0.00994", 0.000995: "0.00100", 1.8234e-5: "1.82e-5", 9.999e-6: "1.00e-5", 3.2e-10: "3.20e-10",
	} {
		require.Equal(t, want, gbps(v))
		require.LessOrEqual(t, len(want), 8)
	}
	require.Equal(t, "1.82e-5", columnGbps.text(&result.Result{ThroughputGbps: 1.8234e-5}))
	require.Equal(t, "1.82e-5", foundText(&result.Result{Congestion: result.Congestion{MeanRateBps: 18_234}}))
}

// TestUnknownIsNoZero: of a point whose other end has gone nothing is told as if it had been counted.
func TestUnknownIsNoZero(t *testing.T) {
	r := sampleResults()[2]
	for _, columns := range [][]column{ofLatency, ofCongestion, ofFlows, wide} {
		for _, c := range columns {
			switch c.head {
			case "CPUs", "marked", "lost", "repeated", "spurious", "user", "sys", "ns/pkt":
				require.Equal(t, "-", c.text(r), c.head)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	compare(t, "results.csv", string(csvOf(sampleResults())))
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	o := &output{json: "-", stdout: &b, results: sampleResults()}
	require.NoError(t, o.end())
	compare(t, "results.json", b.String())
}
