// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/dataplane/ebpf"
	"github.com/sdr-rdma/go-sdr/units"
)

// The program is on the interface while the command runs, sees what passes, and is gone afterwards.
func TestAttachTrim(t *testing.T) {
	needNetworks(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	defer l.close()
	attached := func() (on bool) {
		require.NoError(t, l.sw.do(func() error {
			x, err := netlink.LinkByIndex(l.ports[0])
			on = err == nil && x.Attrs().Xdp != nil && x.Attrs().Xdp.Attached
			return err
		}))
		return on
	}
	require.False(t, attached())
	ctx, cancel := context.WithCancel(context.Background())
	a := attachment{dev: "port0", Config: ebpf.Config{Rate: units.Gbit, Queue: 64 * units.KiB}, every: 20 * units.Millisecond}
	var out strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- l.sw.do(func() error { return a.run(ctx, &out) })
	}()
	for start := time.Now(); !attached() && time.Since(start) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-done:
			cancel()
			if errors.Is(err, os.ErrPermission) || errors.Is(err, link.ErrNotSupported) {
				t.Skip("no right to load eBPF programs: ", err)
			}
			require.NoError(t, err)
		default:
		}
	}
	require.True(t, attached())
	require.NoError(t, l.hosts[0].ns.do(func() error {
		c, err := net.Dial("udp", net.JoinHostPort(l.hosts[1].addr.String(), "9"))
		if err == nil {
			_, err = c.Write([]byte("discard"))
			_ = c.Close()
		}
		return err
	}))
	time.Sleep(100 * time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.False(t, attached())
	require.Contains(t, out.String(), "other ")
	require.NotContains(t, out.String()[strings.LastIndex(out.String(), "data "):], "other 0,")
}
