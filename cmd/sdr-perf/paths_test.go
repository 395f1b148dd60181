// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestPathsFlag(t *testing.T) {
	var p paths
	require.NoError(t, p.Set("100mbit,10mbit@1500ms"))
	rates, ends, err := p.split()
	require.NoError(t, err)
	require.Equal(t, []units.Rate{100 * units.Mbit, 10 * units.Mbit}, rates)
	require.Equal(t, []units.Duration{0, 1500 * units.Millisecond}, ends)
	for _, bad := range []string{"100mbit,", "0", "x", "1gbit@", "1gbit@0s", "1gbit@-1s", "-1gbit"} {
		require.Error(t, p.Set(bad), bad)
	}
	// Both for a second, then one: 110 Mbit in the first, 100 Mbit/s after it.
	for n, want := range map[units.Bytes]units.Duration{110e6 / 16: 500 * units.Millisecond, 110e6 / 8: units.Second, 210e6 / 8: 2 * units.Second} {
		require.InDelta(t, want, paths("100mbit,10mbit@1500ms").carry(n, 500*units.Millisecond), 2, "%d bytes", n)
	}
	require.Equal(t, 100*units.Millisecond, paths("1gbit@1s").carry(units.GiB, 900*units.Millisecond), "then all are dead")
	require.True(t, paths("1gbit@1s").dies())
	require.False(t, paths("1gbit,1gbit").dies())
	for want, change := range map[string]func(*params){
		"leave out --rate":  func(p *params) { p.Link.Rate = 1 },
		"choose a multiple": func(p *params) { p.Channels = 3 },
		"want a rate":       func(p *params) { p.Link.Paths = "fast" }, // of a client
	} {
		x := defaultParams()
		x.Link.Paths = "1gbit,1gbit"
		require.NoError(t, x.check())
		change(&x)
		require.ErrorContains(t, x.check(), want)
	}
}

// TestUnequalPaths: scheme strack moves content over sockets and paths of which one is slow and one dies on the way.
func TestUnequalPaths(t *testing.T) {
	p := start(t, "--loopback", "--addr", own(0), "-s", "4MiB", "-n", "1", "--warmup", "0", "--rtt", "5ms",
		"--paths", "50mbit,50mbit,5mbit,50mbit@300ms", "--reliability", "strack", "--json", "-")
	p.ends(t, waitLimit, 0)
	all := results(t, p)
	require.Len(t, all, 1)
	require.Equal(t, true, all[0]["verified"])
	require.Greater(t, all[0]["t_over_ideal"], 0.95, "paths carry no more than that")
	require.Greater(t, all[0]["longest_stall_ns"], 2.5e6, "the first byte takes half a round trip")
	require.Less(t, all[0]["longest_stall_ns"], all[0]["elapsed_ns"])
	link, ok := all[0]["link"].(map[string]any)
	require.True(t, ok)
	require.InDelta(t, float64(155*units.Mbit), link["rate_bps"], 0)
}
