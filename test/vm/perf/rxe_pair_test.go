// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// wan is a long, bad link, in each direction: 5 ms, 1 % lost, some overtaken, some damaged.
var wan = netlink.NetemQdiscAttrs{Latency: 5000, Loss: 1, ReorderProb: 2, Gap: 5, CorruptProb: 0.5}

// result is what the tests read of sdr-perf's JSON.
type result struct {
	Device     string `json:"device"`
	Backend    string `json:"backend"`
	Size       int    `json:"size_bytes"`
	MTU        int    `json:"mtu"`
	Iterations int    `json:"iterations"`
	Incomplete bool   `json:"incomplete"`
	Verified   *bool  `json:"verified"`
	Completion struct {
		P50 float64 `json:"p50"`
	} `json:"completion_ns"`
	Gbps    float64 `json:"throughput_gbps"`
	Packets struct {
		Lost uint64 `json:"lost_unseen"`
	} `json:"packets"`
	Chunks struct {
		Retransmitted uint64 `json:"retransmitted"`
	} `json:"chunks"`
}

func results(t *testing.T, text string) []result {
	t.Helper()
	var r []result
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	for _, r := range r {
		require.False(t, r.Incomplete)
		require.NotNil(t, r.Verified)
		require.True(t, *r.Verified, "content")
	}
	return r
}

// TestTwoVMs moves transfers with selective repeat between two VMs, over a clean cable and over a long,
// bad one. Every byte is compared.
func TestTwoVMs(t *testing.T) {
	require.True(t, here.pair, "this test needs two VMs")
	port := 18600
	for i, family := range []string{"IPv4", "IPv6"} {
		for _, bad := range []bool{false, true} {
			port++
			t.Run(fmt.Sprintf("%s, bad link %v", family, bad), func(t *testing.T) { twoVMs(t, i, bad, fmt.Sprint(port)) })
		}
	}
}

func twoVMs(t *testing.T, family int, bad bool, port string) {
	if bad {
		impair(t, wan)
	}
	x := gidIndex(t, "rxe0", here.own[family])
	text := both(t, port, []string{"sdr-perf", "-d", "rxe0", "-x", x, "-p", port},
		[]string{"sdr-perf", "-d", "rxe0", "-x", x, "-i", "1", "-m", "4096", "-p", port, "-s", "64KiB,1MiB", "-n", "3", "--warmup", "1",
			"--reliability", "sr", "--json", "-", here.peer[family]})
	if here.server {
		return
	}
	all := results(t, text)
	require.Len(t, all, 2)
	lost, again := uint64(0), uint64(0)
	for _, r := range all {
		t.Logf("%d bytes: median %.1f ms, %d packets lost, %d units repeated", r.Size, r.Completion.P50/1e6, r.Packets.Lost, r.Chunks.Retransmitted)
		require.Equal(t, "rxe0", r.Device)
		require.Equal(t, "uc", r.Backend)
		require.Equal(t, 4096, r.MTU)
		require.Equal(t, 3, r.Iterations)
		lost += r.Packets.Lost
		again += r.Chunks.Retransmitted
		if bad {
			require.Greater(t, r.Completion.P50, 10e6, "no transfer is faster than the round trip")
		}
	}
	if bad {
		require.Positive(t, lost, "netem loses some of 768 packets")
		require.Positive(t, again)
	}
}

// TestOptions runs between two VMs what says how is measured: transfers under way on several connections, both
// directions, round trips, a sweep, and an emulated link on top of the real one.
func TestOptions(t *testing.T) {
	require.True(t, here.pair, "this test needs two VMs")
	x := gidIndex(t, "rxe0", here.own[0])
	port := 18650
	for _, o := range []struct {
		points int
		args   []string
	}{
		{1, []string{"-s", "16KiB", "-t", "4", "-q", "2", "-b", "-n", "5"}},
		{1, []string{"-s", "1KiB", "--latency", "-n", "10"}},
		{2, []string{"-s", "16KiB", "-n", "3", "--sweep", "inflight=1,4", "--wide"}},
		{2, []string{"-s", "64KiB,128KiB", "-n", "3", "--rtt", "20ms", "--drop", "2%", "--burst", "2"}},
	} {
		port++
		p := fmt.Sprint(port)
		client := append([]string{"sdr-perf", "-d", "rxe0", "-x", x, "-m", "4096", "-p", p, "--warmup", "1", "--reliability", "sr", "--json", "-"}, o.args...)
		text := both(t, p, []string{"sdr-perf", "-d", "rxe0", "-x", x, "-p", p}, append(client, here.peer[0]))
		if here.server {
			continue
		}
		all := results(t, text)
		require.Len(t, all, o.points, "%v", o.args)
		for _, r := range all {
			require.Positive(t, r.Iterations)
			t.Logf("%v: %d transfers of %d bytes, median %.1f ms", o.args, r.Iterations, r.Size, r.Completion.P50/1e6)
		}
	}
}
