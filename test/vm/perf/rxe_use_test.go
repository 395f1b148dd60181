// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package perf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefaults: without -x and --addr the address is the one that the client came to, and without -m
// the MTU is what both can.
func TestDefaults(t *testing.T) {
	require.True(t, here.pair, "this test needs two VMs")
	const port = "18610"
	text := both(t, port, []string{"sdr-perf", "-d", "softroce", "-p", port},
		[]string{"sdr-perf", "-d", "rxe0", "-p", port, "-s", "64KiB", "-n", "1", "--warmup", "0", here.peer[1]})
	if !here.server {
		require.Contains(t, text, fmt.Sprintf("rxe0 at %s (GID index %s), MTU 4096", here.own[1], gidIndex(t, "rxe0", here.own[1])))
	}
}

// TestOneDevice: both ends on one device, in one process; also over reliable connections.
func TestOneDevice(t *testing.T) {
	if here.server {
		return // the first VM is enough
	}
	for device, scheme := range map[string]string{"rxe0": "sr", "rc:rxe0": "none"} {
		all := results(t, start(t, "sdr-perf", "--loopback", "-d", device, "--reliability", scheme, "-s", "4KiB,256KiB", "-n", "3", "--warmup", "0", "--json", "-").finish(t))
		require.Len(t, all, 2)
		require.Equal(t, device, all[0].Device)
	}
}

// TestMistakes: each mistake is answered at once, by one line that says what may be given instead.
func TestMistakes(t *testing.T) {
	require.True(t, here.pair, "this test needs two VMs")
	if here.server {
		return // the first VM is enough
	}
	setMTU(t, 1500)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"-d rxe7", []string{`unknown device "rxe7"`, "choose one of softroce, userroce, rxe0"}},
		{"-d rxe0 -x 99", []string{"rxe0 port 1 has no RoCEv2 GID at index 99: it has 0 (fe80::", here.own[0], here.own[1]}},
		{"-d softroce -x 99", []string{"has no RoCEv2 GID at index 99"}},
		{"-d rxe0 --addr 192.0.2.7", []string{"no GID for address 192.0.2.7", here.own[0]}},
		{"-d rxe0 -i 2", []string{"rxe0 port 2", "ports 1 to 1"}},
		{"-d softroce -i 2", []string{"port 2: a Soft-RoCE device has one, port 1"}},
		{"-d rxe0 -m 4096", []string{"--mtu: MTU 4096: rxe0 carries packets of 1024 at most", "ip link set dev eth0 mtu 4176"}},
		{"-d rxe0 -m 2048 --loopback -s 1KiB", []string{"ip link set dev eth0 mtu 2128"}},
		{"-d userroce -x 1", []string{"--gid-index are for the kernel's RDMA devices"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			p := start(t, append([]string{"sdr-perf"}, strings.Fields(c.args)...)...)
			require.Error(t, p.wait(t))
			for _, s := range c.says {
				require.Contains(t, p.stderr.String(), s)
			}
			require.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), p.stderr.String())
		})
	}
}
