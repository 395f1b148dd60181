// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
	"github.com/sdr-rdma/go-sdr/dataplane/ebpf"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
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

// What the program leaves of packets arrives behind the switch as right packets, by what their own fields say, whether the driver or the kernel runs it: over IPv4
// without a UDP checksum, although they had one, over IPv6 with a right one. A fragment is not cut.
func TestAttachCutsWhatPasses(t *testing.T) {
	needNetworks(t)
	v4 := writeFrame(1024)
	binary.BigEndian.PutUint16(v4[40:], 0x1234)
	v6 := append(append(bytes.Clone(v4[:12]), 0x86, 0xdd), make([]byte, 40)...)
	v6 = append(v6, v4[34:]...)
	v6[14], v6[15] = 6<<4|trim.Data.TOS(2)>>4, trim.Data.TOS(2)<<4
	binary.BigEndian.PutUint16(v6[18:], uint16(len(v6)-54))
	v6[20], v6[21] = unix.IPPROTO_UDP, 64
	v6[22], v6[37], v6[38], v6[53] = 0xfe, 1, 0xfe, 2
	const left = 12 + 16 + 4 // BTH, RETH and immediate
	for _, generic := range []bool{false, true} {
		l, err := newLab(1500)
		require.NoError(t, err)
		defer l.close()
		var x *ebpf.Trimmer
		err = l.sw.do(func() (err error) {
			if err = l.bridge(); err == nil {
				x, err = attach(l.ports[0], ebpf.Config{Rate: 10 * units.Kbit, Queue: 1, Generic: generic})
			}
			return err
		})
		skipWithoutRight(t, err)
		require.NoError(t, err)
		defer x.Close()

		cut := through(t, l, v4, 14+20+8+left)
		require.EqualValues(t, 20+8+left, binary.BigEndian.Uint16(cut[16:]))
		require.EqualValues(t, 0xffff, sum(cut[14:34]))
		require.Equal(t, trim.HeaderOnly.TOS(2), cut[15])
		require.Equal(t, v4[26:38], cut[26:38], "addresses and ports")
		require.EqualValues(t, 8+left, binary.BigEndian.Uint16(cut[38:]))
		require.Zero(t, binary.BigEndian.Uint16(cut[40:]))
		require.Equal(t, v4[42:42+left], cut[42:])

		cut = through(t, l, v6, 14+40+8+left)
		require.EqualValues(t, 8+left, binary.BigEndian.Uint16(cut[18:]))
		require.Equal(t, trim.HeaderOnly.TOS(2), cut[14]<<4|cut[15]>>4)
		require.EqualValues(t, 8+left, binary.BigEndian.Uint16(cut[58:]))
		require.NotZero(t, binary.BigEndian.Uint16(cut[60:]))
		require.EqualValues(t, 0xffff, sum(append(bytes.Clone(cut[22:]), 0, 8+left, 0, unix.IPPROTO_UDP)))
		require.Equal(t, v6[62:62+left], cut[62:])

		before, err := x.Meter()
		require.NoError(t, err)
		fragment := bytes.Clone(v4)
		fragment[20] = 0x20 // MF
		write(t, packetSocket(t, l.hosts[0], 0), fragment)
		require.Eventually(t, func() bool {
			m, err := x.Meter()
			return err == nil && m.Trimmed == before.Trimmed && m.Other+m.Dropped > before.Other+before.Dropped
		}, 10*time.Second, time.Millisecond)
	}
}

// through sends a frame from a lab's first host until what arrives of one at the second has so many bytes.
func through(t *testing.T, l *lab, f []byte, want int) []byte {
	in, out, b := packetSocket(t, l.hosts[0], 0), packetSocket(t, l.hosts[1], unix.ETH_P_ALL), make([]byte, 2000)
	require.NoError(t, unix.SetsockoptTimeval(out, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}))
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		write(t, in, f)
		for {
			n, err := unix.Read(out, b)
			if err != nil { // nothing more: the bridge may not have been ready
				require.Contains(t, []error{unix.EAGAIN, unix.EINTR}, err)
				break
			}
			if n == want && bytes.Equal(b[:14], f[:14]) { // not what the kernel sends, nor what was let pass
				return b[:n]
			}
		}
	}
	require.Fail(t, "it does not arrive", "%d bytes of %d", want, len(f))
	return nil
}

// sum is that of the Internet checksum (RFC 1071).
func sum(b []byte) (s uint32) {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	return s>>16 + s&0xffff
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
		{"--dev lo --rate 1gbit --interval 9999999ns", "--interval 9.999999ms: choose 10 ms or more"},
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
