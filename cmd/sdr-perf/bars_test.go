// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestBars(t *testing.T) {
	r := sampleResults()[0] // 20.775 Gbit/s, 38.7 a second, 25.84 ms, p99 27.12 ms, 1.0337, 20010 ns
	for _, b := range []bars{
		{}, {minGbps: 20.775}, {minRate: 38}, {maxAvg: 26 * units.Millisecond}, {maxP99: 28 * units.Millisecond}, {maxIdeal: 1.04}, {maxNsPerPacket: 20_010},
	} {
		require.Empty(t, b.misses(r), "%+v", b)
	}
	for want, b := range map[string]bars{
		"20.775 Gbit/s, at least 21 asked for":       {minGbps: 21},
		"38.7 transfers/s, at least 39 asked for":    {minRate: 39},
		"average 25.84 ms, at most 25 ms asked for":  {maxAvg: 25 * units.Millisecond},
		"p99 27.12 ms, at most 27 ms asked for":      {maxP99: 27 * units.Millisecond},
		"T/ideal 1.034, at most 1.03 asked for":      {maxIdeal: 1.03},
		"20010 ns a packet, at most 20000 asked for": {maxNsPerPacket: 20_000},
	} {
		require.Equal(t, []string{"adaptive 64 MiB: " + want}, b.misses(r))
	}
	few := *r
	few.Iterations, few.CompletionNs.P99, few.TOverIdeal = 99, 0, nil
	require.Equal(t, []string{"adaptive 64 MiB: 99 transfers have no p99: measure 100 or more"}, (&bars{maxP99: units.Second}).misses(&few))
	require.Equal(t, []string{"adaptive 64 MiB: T/ideal -, at most 2 asked for"}, (&bars{maxIdeal: 2}).misses(&few))
}

// TestIdealNeedsLink: what nothing can be compared with is refused before it is measured.
func TestIdealNeedsLink(t *testing.T) {
	for args, ok := range map[string]bool{"": false, "--drop 0.1": false, "--sweep rtt=0,1ms": false, "--rate 1g -s 0,1k": false, "--rtt 1ms -s 0": true, "--rate 1g": true} {
		_, _, err := asked("--loopback --max-ideal 2 " + args)
		if ok {
			require.NoError(t, err, args)
			continue
		}
		require.ErrorContains(t, err, "has no ideal: give --rtt or --rate", args)
		require.True(t, isUsage(err))
	}
}

// TestZeroBars: a limit of zero is none, which nobody asks for.
func TestZeroBars(t *testing.T) {
	for _, bar := range barFlags {
		_, _, err := asked("--loopback --rtt 1ms --" + bar + " 0")
		require.ErrorContains(t, err, "--"+bar+" 0: choose more than zero, or leave it out")
		require.True(t, isUsage(err))
	}
}

// TestExitThree: a point that falls short is shown, written, and ends with status 3.
func TestExitThree(t *testing.T) {
	for bar, status := range map[string]int{"--min-gbps=1000": 3, "--min-gbps=0.000001": 0} {
		p := start(t, "--loopback", "--addr", own(0), "-s", "64KiB", "-n", "2", "--warmup", "0", bar, "--json", "-")
		p.ends(t, waitLimit, status)
		require.Len(t, results(t, p), 1)
		if status == 3 {
			require.Regexp(t, `^sdr-perf: fell short: adaptive 64 KiB: [0-9.]+ Gbit/s, at least 1000 asked for$`, p.lastLine())
		}
	}
}
