// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctor: what is too small has a line to type, what is well has none.
func TestDoctor(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
	}
	write("proc/sys/net/core/rmem_max", "212992")
	write("proc/sys/net/core/wmem_max", "16777216")
	write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet")
	write("proc/sys/kernel/osrelease", "6.12.1")
	var b strings.Builder
	show(&b, patient{root}.examine())
	out := b.String()
	require.Contains(t, out, "all       kernel                 6.12.1\n")
	require.Contains(t, out, "userroce  net.core.rmem_max      208 KiB\n    -> sudo sysctl -w net.core.rmem_max=8388608\n       # fast senders overrun less\n")
	require.Contains(t, out, "userroce  net.core.wmem_max      16 MiB\n")
	require.NotContains(t, out, "-w net.core.wmem_max")
	require.Contains(t, out, "-> echo tsc")
	require.Contains(t, out, "UDP port 4791")
	require.Contains(t, out, "segmentation offload")
	require.Contains(t, out, "softroce  RDMA devices")

	require.Equal(t, "unknown", patient{root}.text("nothing"))
	_, said, err := asked("doctor")
	require.NoError(t, err)
	require.Contains(t, said, "locked memory")
}

// TestDoctorNamesHolder: the doctor names who has the port in the words of the error that others get.
func TestDoctorNamesHolder(t *testing.T) {
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(own(0)), Port: 4791})
	require.NoError(t, err)
	defer u.Close()
	f := patient{"/"}.port()
	require.Regexp(t, `^taken: held by .+ \(pid [0-9]+\)$`, f.state)
	p := start(t, "--loopback", "--addr", own(0), "--udp-port", "4791", "-s", "1", "-n", "1")
	p.ends(t, waitLimit, exitFailure)
	require.Contains(t, p.lastLine(), " is taken: held by ")
	require.Contains(t, p.lastLine(), fmt.Sprintf("(pid %d)", os.Getpid()))
}
