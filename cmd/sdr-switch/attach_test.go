// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
	"github.com/sdr-rdma/go-sdr/dataplane/ebpf"
	"github.com/sdr-rdma/go-sdr/roce"
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
			skipWithoutRight(t, err)
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
	second := a
	second.dev = "by-another-name"
	err = l.sw.do(func() error {
		if err := netlink.LinkAddAltName(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: l.ports[0]}}, second.dev); err != nil {
			return err
		}
		return second.run(ctx, io.Discard)
	})
	require.ErrorContains(t, err, "attach to port0: it has another XDP program")
	time.Sleep(100 * time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.False(t, attached())
	require.Contains(t, out.String(), "other ")
	require.NotContains(t, out.String()[strings.LastIndex(out.String(), "data "):], "other 0,")
	require.NotContains(t, out.String(), "gso_max_segs")
}

// Where the kernel runs the program for a driver without XDP, trains of packets pass it whole: the command says what to do about that.
func TestAttachGeneric(t *testing.T) {
	needNetworks(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	defer l.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := attachment{dev: "lo", Config: ebpf.Config{Rate: units.Gbit, Queue: 64 * units.KiB}, every: units.Second}
	var out strings.Builder
	err = l.hosts[0].ns.do(func() error { return a.run(ctx, &out) })
	skipWithoutRight(t, err)
	require.NoError(t, err)
	require.Contains(t, out.String(), "the kernel runs it for lo")
	require.Contains(t, out.String(), "gso_max_segs 1")
	require.Contains(t, out.String(), "gro off")
}

// Frames that are longer than a page are more than veth takes with XDP: the error says so. The kernel takes and cuts them.
func TestAttachMTU(t *testing.T) {
	needNetworks(t)
	mtu := min(os.Getpagesize()+100, 65_000)
	l, err := newLab(mtu)
	require.NoError(t, err)
	defer l.close()
	a := attachment{dev: "port0", Config: ebpf.Config{Rate: units.Gbit, Queue: 64 * units.KiB}, every: units.Second}
	err = l.sw.do(func() error { return a.run(t.Context(), io.Discard) })
	skipWithoutRight(t, err)
	require.ErrorContains(t, err, "attach to port0: its MTU of")
	require.ErrorContains(t, err, "--generic")
	var x *ebpf.Trimmer
	require.NoError(t, l.sw.do(func() (err error) {
		x, err = attach(l.ports[0], ebpf.Config{Rate: 10 * units.Kbit, Queue: 1, Generic: true})
		return err
	}))
	defer x.Close()
	out, f := packetSocket(t, l.hosts[0], 0), writeFrame(mtu-roce.IPv4WriteImmOverhead)
	write(t, out, f)
	write(t, out, f)
	require.Eventually(t, func() bool {
		m, err := x.Meter()
		return err == nil && m.Data+m.Trimmed == 2 && m.Trimmed > 0 // the first finds an empty queue, unless the kernel has sent something
	}, 10*time.Second, time.Millisecond)
}

// A tunnel's packets begin with their IP header, in which the program finds none: it is refused before anything is attached.
func TestAttachTunnel(t *testing.T) {
	needNetworks(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	defer l.close()
	a := attachment{dev: "tun0", Config: ebpf.Config{Rate: units.Gbit, Queue: 64 * units.KiB}, every: units.Second}
	if err := l.sw.do(func() error {
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: a.dev}, Mode: netlink.TUNTAP_MODE_TUN})
	}); err != nil {
		t.Skip("no tun interfaces here: ", err)
	}
	err = l.sw.do(func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return a.run(ctx, io.Discard)
	})
	require.ErrorContains(t, err, "attach to tun0: its packets have no Ethernet header")
}

// Where the interface is removed, the command ends and says so, by itself or with the interrupt.
func TestAttachedInterfaceGoes(t *testing.T) {
	needNetworks(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	defer l.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := attachment{dev: "port0", Config: ebpf.Config{Rate: units.Gbit, Queue: 64 * units.KiB}, every: 20 * units.Millisecond}
	begun := &notice{on: "data ", seen: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- l.sw.do(func() error { return a.run(ctx, begun) })
	}()
	select {
	case err := <-done:
		skipWithoutRight(t, err)
		require.NoError(t, err)
	case <-begun.seen:
	}
	require.NoError(t, l.sw.do(func() error { return netlink.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: l.ports[0]}}) }))
	select {
	case err := <-done:
		require.ErrorIs(t, err, ebpf.ErrGone)
		require.ErrorContains(t, err, "port0: ")
	case <-time.After(10 * time.Second):
		require.Fail(t, "it runs on without its interface")
	}
}

// A notice closes seen when something is written.
type notice struct {
	on   string
	seen chan struct{}
	once sync.Once
}

func (n *notice) Write(b []byte) (int, error) {
	if strings.Contains(string(b), n.on) {
		n.once.Do(func() { close(n.seen) })
	}
	return len(b), nil
}

// What would cut nothing is refused before anything is attached.
func TestAttachMistakes(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--rate 1gbit", "--dev: say"},
		{"--dev lo", "--rate: say"},
		{"--dev lo --rate 1gbit --keep 10", "choose 61 to 512"},
		{"--dev lo --rate 1gbit --keep 60", "choose 61 to 512"},
		{"--dev lo --rate 1gbit --queue 0", "choose 1 byte to 1 GiB"},
		{"--dev nonesuch --rate 1gbit", `there is no interface "nonesuch"`},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"attach", "trim"}, strings.Fields(tc.args)...))
		err := root.Execute()
		require.ErrorContains(t, err, tc.want, tc.args)
		require.ErrorAs(t, err, new(usage.Error), tc.args)
	}
}

func TestHelpFits(t *testing.T) { usagetest.HelpFits(t, newRoot()) }

func TestHelpIsOfNoMachine(t *testing.T) { usagetest.HelpIsOfNoMachine(t, newRoot) }

func TestFullDisk(t *testing.T) { usagetest.FullDisk(t, run) }
