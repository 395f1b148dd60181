// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// The test binary is its own end of a stream, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == endArgument {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRun measures streams and sdr-perf as the command does.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	p, err := parse([]string{"-only", "^sdr sr$|quic|^TCP", "-size", "64,12288", "-rounds", "1", "-duration", "50ms", "-warm", "10ms", "-inflight", "3", "-json", file})
	require.NoError(t, err)
	require.NoError(t, p.run(t.Context()))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var records []record
	require.NoError(t, json.Unmarshal(b, &records))
	require.Len(t, records, 6)
	for i, r := range records {
		require.EqualValues(t, []int{64, 12288}[i/3], r.SizeBytes)
		require.Positive(t, *r.MessageRate, r.Name)
		require.InEpsilon(t, *r.MessageRate*float64(r.SizeBytes)*8/1e9, *r.Throughput, 1e-6)
		require.Len(t, r.Rounds, 1)
		require.NotEmpty(t, r.Software, r.Name)
		require.Equal(t, runtime.GOMAXPROCS(0) > 1, r.Rounds[0].Handover > 0)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"-size", "4"}, {"-size", "4KiB,65MiB"}, {"-size", "12"}, {"-inflight", "0"}, {"-inflight", "129"}, {"-rounds", "0"}, {"-duration", "1ms"},
		{"-warm", "1ms"}, {"-only", "nothing"}, {"-only", "("}, {"extra"},
	} {
		_, err := parse(bad)
		require.Error(t, err, "%q", bad)
	}
	p, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, []units.Bytes{4 * units.KiB, 16 * units.KiB, 64 * units.KiB, 256 * units.KiB, units.MiB}, p.sizes)
	require.Len(t, p.chosen(), len(rows()))
}

// TestMissingPackagesAreNamed: what isn't there is said before anything is measured, with the line to type.
func TestMissingPackagesAreNamed(t *testing.T) {
	had := packages["ucx"]
	t.Cleanup(func() { packages["ucx"] = had })
	packages["ucx"] = map[string]string{"libucx-dev": filepath.Join(t.TempDir(), "ucp.h")}
	p, err := parse([]string{"-only", "UCX"})
	require.NoError(t, err)
	require.ErrorContains(t, p.run(t.Context()), "sudo apt-get install libucx-dev (")
	p, err = parse([]string{"-only", "quic"})
	require.NoError(t, err)
	require.NoError(t, p.prepare(), "nobody asked for it")
}

// TestContent: a message of another number, page or slot is noticed, and so is a byte that differs.
func TestContent(t *testing.T) {
	b := make([]byte, 3*pageSize)
	fill(b, 2)
	stamp(b, counted, 7)
	k, err := check(b, 7)
	require.NoError(t, err)
	require.Equal(t, counted, k)
	require.NoError(t, checkWhole(b, 2))
	_, err = check(b, 8)
	require.ErrorIs(t, err, errContent)
	require.ErrorIs(t, checkWhole(b, 1), errContent)
	copy(b[pageSize:], b[2*pageSize:2*pageSize+8])
	_, err = check(b, 7)
	require.ErrorIs(t, err, errContent)
	b[len(b)-1]++
	require.ErrorIs(t, checkWhole(b, 2), errContent)
}

// TestTables: medians, what failed, and what each row counts.
func TestTables(t *testing.T) {
	p, err := parse([]string{"-only", "^sdr sr$|^TCP", "-size", "4KiB"})
	require.NoError(t, err)
	points := p.points()
	require.Len(t, points, 2)
	for _, rate := range []float64{3000, 1000, 1500} {
		points[0].samples = append(points[0].samples, &sample{MessageRate: rate, Gbps: rate / 1000, Sender: cpu{0.5, 0.25}, Receiver: cpu{0.1, 0.1}, version: "this tree"})
	}
	points[1].err = errors.New("it is gone")
	text := p.tables(points, time.Now())
	require.Contains(t, text, "| messages/s | 4 KiB |\n|---|---|\n| sdr sr | 1500 |\n| TCP, one connection | – |\n")
	require.Contains(t, text, "| sdr sr | 1.5 (1–3) |")
	require.Contains(t, text, "| sdr sr | 0.75 + 0.20 |")
	require.Contains(t, text, "a message counts when its receiver's acknowledgement is there; this tree.\n")
	require.Equal(t, 2, strings.Count(text, "\n- sdr sr: ")+strings.Count(text, "\n- TCP"))
	var failed *measureError
	require.ErrorAs(t, p.finish(points, time.Now()), &failed)
	require.ErrorContains(t, failed, "TCP, one connection, 4 KiB: it is gone")
	require.Contains(t, points[1].String(), "failed: it is gone")
}

// TestRatios: rates are compared within a round, and within those where the processors were alike for both.
func TestRatios(t *testing.T) {
	p, err := parse([]string{"-only", "^sdr sr$|^TCP|quic", "-size", "4KiB"})
	require.NoError(t, err)
	points := p.points()
	quic, stream := find(points, "quic-go, one stream", 4*units.KiB), find(points, "TCP, one connection", 4*units.KiB)
	add := func(x *point, rate float64, handover time.Duration) {
		x.samples = append(x.samples, &sample{MessageRate: rate, Handover: handover})
	}
	for i, x := range []struct{ ours, theirs, handover, theirHandover int }{
		{100, 50, 30, 35}, {100, 25, 30, 59}, {90, 10, 160, 150}, {90, 90, 160, 30},
	} {
		add(points[0], float64(x.ours), time.Duration(x.handover))
		add(stream, float64(x.theirs), time.Duration(x.theirHandover))
		if i == 0 {
			add(quic, 200, 30) // and it failed in the second round
		}
	}
	text := p.tables(points, time.Now())
	require.Contains(t, text, "| sdr sr over, in the same round: all; near; far | 4 KiB |\n|---|---|\n")
	require.Contains(t, text, "| TCP, one connection | 3.00 (4); 3.00 (2); 9.00 (1) |\n")
	require.Contains(t, text, "| quic-go, one stream | 0.50 (1); 0.50 (1); – |\n")
	require.Contains(t, text, "less than 60ns from one processor to the other")
}
