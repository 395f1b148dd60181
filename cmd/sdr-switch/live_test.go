// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/dataplane/softswitch"
	"github.com/sdr-rdma/go-sdr/units"
)

// perfProgram builds sdr-perf.
func perfProgram(t *testing.T) string { return build(t, "../sdr-perf") }

func build(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-o", path, folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// needNetworks skips where nobody may make network namespaces.
func needNetworks(t *testing.T) {
	t.Helper()
	l, err := newLab(1500)
	if err != nil {
		t.Skip("no right to make network namespaces: ", err)
	}
	l.close()
}

// skipWithoutRight skips a test whose error is that eBPF programs may not be loaded here.
func skipWithoutRight(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, unix.EPERM) || errors.Is(err, link.ErrNotSupported) {
		t.Skip("no right to load eBPF programs: ", err)
	}
}

// sdr-perf's packets go through a switch that cuts each 50th, and through one with a slow line: all transfers arrive whole,
// each header-only packet that the receiver saw came back to the sender, and was repeated. Beside it, one that drops.
func TestLiveTrim(t *testing.T) {
	needNetworks(t)
	perf, file := perfProgram(t), filepath.Join(t.TempDir(), "results.json")
	for _, args := range [][]string{
		{"--rate", "0", "--each", "50"}, {"--rate", "100mbit", "--offered", "1.5", "--scheme", "adaptive"},
	} {
		args = append([]string{"live", "trim", "--sdr-perf", perf, "--json", file, "-s", "256KiB", "-n", "4"}, args...)
		require.Zero(t, run(args))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var rows []row
		require.NoError(t, json.Unmarshal(b, &rows))
		require.Len(t, rows, 2)
		require.NotRegexp(t, `"(too_long|marked)"`, string(b), "nothing in this lab can be counted so")
		for _, r := range rows {
			require.True(t, *r.Perf.Verified)
			require.Equal(t, 4, r.Perf.Iterations)
			p := &r.Perf.Packets
			require.Equal(t, r.Trim, p.TrimmedSeen > 0)
			require.LessOrEqual(t, p.TrimmedSeen, r.Switch.Trimmed)
			require.LessOrEqual(t, p.TrimmedReported, p.TrimmedSeen)
			require.Equal(t, r.Trim, p.TrimmedReported > 0)
			require.Zero(t, r.Switch.TooLong)
			if !r.Trim {
				require.NotZero(t, r.Switch.Dropped)
			}
		}
		require.GreaterOrEqual(t, rows[0].Perf.Chunks.Retransmitted+rows[0].Perf.Chunks.Recovered, rows[0].Perf.Packets.TrimmedReported*9/10)
	}
}

// A switch that cuts to 256 bytes, as today's do, is one like others; what one leaves that cuts below the RETH tells nobody anything, and
// is repeated as what was dropped. One that lets header-only packets carry others loses no word of them.
func TestLiveTrimLeaves(t *testing.T) {
	needNetworks(t)
	perf, file := perfProgram(t), filepath.Join(t.TempDir(), "results.json")
	for _, args := range [][]string{
		{"--keep", "256", "--each", "40"}, {"--keep", "64", "--each", "40"}, {"--carry", "64", "--rate", "50mbit", "--offered", "4", "--queue", "8KiB"},
	} {
		args = append([]string{"live", "trim", "--sdr-perf", perf, "--json", file, "--switch", "soft", "--scheme", "sr-nack", "-s", "256KiB", "-n", "2", "--rate", "0"}, args...)
		require.Zero(t, run(args))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var rows []row
		require.NoError(t, json.Unmarshal(b, &rows))
		require.Len(t, rows, 1)
		x := &rows[0]
		require.True(t, *x.Perf.Verified, "%v", args)
		require.NotZero(t, x.Switch.Trimmed)
		require.Equal(t, args[len(args)-3] != "64", x.Perf.Packets.TrimmedReported > 0, "%v", args)
		require.Equal(t, args[len(args)-2] == "--queue", x.Switch.Joined > 0, "%v", args)
	}
}

// What a scheme without repeats has lost is no goodput.
func TestLiveTrimWithoutRepeats(t *testing.T) {
	needNetworks(t)
	file := filepath.Join(t.TempDir(), "results.json")
	require.Zero(t, run([]string{
		"live", "trim", "--sdr-perf", perfProgram(t), "--json", file, "-s", "256KiB", "-n", "2", "--rate", "0", "--each", "4", "--scheme", "none", "--switch", "soft",
	}))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []row
	require.NoError(t, json.Unmarshal(b, &rows))
	require.Len(t, rows, 1)
	r := &rows[0].Perf
	require.EqualValues(t, 128, r.Chunks.Missing, "a quarter of 512 packets")
	require.InEpsilon(t, 0.75*r.ThroughputGbps*1e9, rows[0].GoodputBps, 1e-6)
}

// The kernel's switches do the same: an XDP program that trims, and HTB behind it.
func TestLiveTrimInTheKernel(t *testing.T) {
	needNetworks(t)
	probe, err := newLab(1500)
	require.NoError(t, err)
	e := &experiment{rate: 100 * units.Mbit, queue: 64 * units.KiB, mtu: 1024}
	sw, err := e.open(probe, xdpHTB)
	if err != nil {
		probe.close()
	}
	skipWithoutRight(t, err)
	require.NoError(t, err)
	_, _, err = sw.stop()
	require.NoError(t, err)
	probe.close()
	file := filepath.Join(t.TempDir(), "results.json")
	require.Zero(t, run([]string{
		"live", "trim", "--sdr-perf", perfProgram(t), "--json", file, "-s", "256KiB", "-n", "4", "--rate", "100mbit", "--switch", "xdp,xdp+htb",
	}))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []row
	require.NoError(t, json.Unmarshal(b, &rows))
	require.Len(t, rows, 2)
	for i, r := range rows {
		p := &r.Perf.Packets
		require.Equal(t, []kind{xdp, xdpHTB}[i], r.Kind)
		require.True(t, r.Trim && *r.Perf.Verified)
		require.NotZero(t, p.TrimmedReported)
		require.LessOrEqual(t, p.TrimmedSeen, r.Switch.Trimmed)
		require.LessOrEqual(t, p.TrimmedReported, p.TrimmedSeen)
	}
}

// What makes no sense is status 2, and says what to do.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"live", "trim", "--mtu", "1000"}, {"live", "trim", "--offered", "-1"}, {"live", "trim", "--scheme", "best"}, {"live", "trim", "--rate", "1kbit"},
		{"live", "trim", "--switch", "best"}, {"live", "trim", "--switch", ""}, {"live", "trim", "--switch", "xdp", "--rate", "0"},
		{"live", "trim", "--switch", "soft,xdp", "--rate", "9tbit"}, {"live", "trim", "--each", "-1"}, {"live", "trim", "--each", "1"}, {"live", "trim", "--carry", "65"}, {"live", "trim", "--keep", "60"}, {"live", "trim", "--keep", "256", "--carry", "2"}, {"live", "trim", "--keep", "334", "--mtu", "256"}, {"live", "trim", "--congestion", "hope"}, {"live", "trim", "--congestion", "nscc"}, {"live", "trim", "--congestion", "hpcc"}, {"live", "trim", "--congestion", "dcqcn"},
		{"live", "trim", "--nothing"}, {"live", "nothing"},
		{"attach", "trim"}, {"attach", "trim", "--dev", "no such"}, {"attach", "trim", "--dev", "lo"}, {"attach", "trim", "--dev", "lo", "--rate", "1gbit", "--interval", "1ms"},
	} {
		if args[1] == "trim" && args[0] == "live" {
			args = append(args, "--sdr-perf", os.Args[0]) // no sdr-perf would be 2 for that alone
		}
		require.Equal(t, 2, run(args), "%v", args)
	}
	require.Equal(t, 2, run([]string{"live", "trim", "--json", "/nonexistent/results.json", "--sdr-perf", os.Args[0]}))
	for _, perf := range []string{"/nonexistent", "no-such-program", t.TempDir(), "live_test.go"} {
		require.Equal(t, 2, run([]string{"live", "trim", "--sdr-perf", perf}), perf)
	}
	e := experiment{mtu: units.Bytes(os.Getpagesize()), rate: units.Gbit, queue: 1, carry: 1, congestions: []string{"fixed"}, switches: []string{string(xdp)}}
	require.Error(t, e.checkRows(), "frames longer than a page")
	e.mtu = 1024
	if os.Geteuid() == 0 {
		require.NoError(t, e.checkRows())
	}
	e.carry = 2
	require.Error(t, e.checkRows(), "the kernel's switches don't join headers")
	require.Zero(t, run([]string{"live", "trim", "--help"}))
}

// What it has started ends with it, and the networks with that, also when it is killed.
func TestKilledLeavesNothing(t *testing.T) {
	needNetworks(t)
	dir := t.TempDir()
	log, perf := filepath.Join(dir, "log"), filepath.Join(dir, "perf")
	require.NoError(t, os.WriteFile(perf, []byte("#!/bin/sh\necho $$ >> "+log+"\nexec sleep 1000\n"), 0o755))
	c := exec.Command(build(t, "."), "live", "trim", "--sdr-perf", perf, "--switch", "soft")
	require.NoError(t, c.Start())
	var ids []string
	both := func() bool {
		b, _ := os.ReadFile(log)
		ids = strings.Fields(string(b))
		return len(ids) == 2
	}
	ends := assert.Eventually(t, both, 20*time.Second, 10*time.Millisecond, "the two ends of sdr-perf")
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	require.True(t, ends)
	for _, id := range ids {
		defer exec.Command("kill", id).Run() //nolint:errcheck // it has ended, unless the test fails
		require.Eventually(t, func() bool {
			b, err := os.ReadFile(filepath.Join("/proc", id, "stat"))
			return err != nil || bytes.Contains(b, []byte(") Z ")) // of which its new parent has not heard
		}, 10*time.Second, 10*time.Millisecond, "process %s is left", id)
	}
}

// asUser runs the program with its arguments as an ordinary user, and returns its exit status and what it said. stdout may be nil.
func asUser(t *testing.T, stdout io.Writer, args ...string) (exit int, said string) {
	t.Helper()
	built, err := os.ReadFile(build(t, "."))
	require.NoError(t, err)
	folder, err := os.MkdirTemp("/tmp", "sdr-switch-") // not in TMPDIR, which may be another user's alone
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	program := filepath.Join(folder, "sdr-switch")
	require.NoError(t, os.WriteFile(program, built, 0o755))
	for _, path := range []string{folder, program} { // whatever umask this user has
		require.NoError(t, os.Chmod(path, 0o755))
	}
	c := exec.Command(program, args...)
	c.Dir = "/"
	var b bytes.Buffer
	c.Stdout, c.Stderr = stdout, &b
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if err := c.Run(); c.ProcessState == nil {
		t.Skip("no other user to be: ", err)
	}
	if strings.Contains(b.String(), "make a user namespace") {
		t.Skip("no right to make user namespaces: ", b.String())
	}
	return c.ProcessState.ExitCode(), b.String()
}

// TestFailsAsUser: what goes wrong in the namespace of an ordinary user is said once, with its own status, and isn't put down to the user.
func TestFailsAsUser(t *testing.T) {
	needNetworks(t)
	fails := []string{"live", "trim", "--switch", "soft", "--sdr-perf", "false"}
	exit, said := asUser(t, nil, fails...)
	require.Equal(t, 1, exit)
	require.Equal(t, "sdr-switch: switch soft, congestion control fixed: sdr-perf: exit status 1\n", said)

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	exit, said = asUser(t, full, fails...)
	require.Equal(t, 1, exit)
	require.Equal(t, "sdr-switch: write /dev/stdout: no space left on device\n", said)

	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	require.NoError(t, read.Close())
	exit, said = asUser(t, write, fails...)
	require.Equal(t, 128+int(syscall.SIGPIPE), exit)
	require.Empty(t, said)
}

// TestDenied: only a right that an ordinary user lacks is said to be missing.
func TestDenied(t *testing.T) {
	user, root, other := &experiment{inner: true}, &experiment{}, errors.New("no")
	require.ErrorContains(t, user.denied(unix.EPERM), "or run it as root")
	require.ErrorIs(t, user.denied(unix.EPERM), unix.EPERM)
	require.Equal(t, other, user.denied(other))
	require.Equal(t, unix.EPERM, root.denied(unix.EPERM))
	require.NoError(t, user.denied(nil))
}

// opened makes two hosts with a switch in software between them that drops nothing on purpose.
func opened(t *testing.T) (l *lab, sw *softswitch.Switch) {
	t.Helper()
	needNetworks(t)
	l, err := newLab(1500)
	require.NoError(t, err)
	t.Cleanup(l.close)
	require.NoError(t, l.sw.do(func() (err error) {
		sw, err = softswitch.Open(l.ports, [2]softswitch.Config{})
		return err
	}))
	t.Cleanup(func() { _ = sw.Close() })
	return l, sw
}

// switched is opened, and runs the switch until stop.
func switched(t *testing.T) (l *lab, sw *softswitch.Switch, stop func()) {
	t.Helper()
	l, sw = opened(t)
	done := make(chan error, 1)
	go func() { done <- sw.Run() }()
	return l, sw, func() {
		sw.Stop()
		require.NoError(t, <-done)
	}
}

// The switch moves frames of other protocols, too, both ways, and its ports count them.
func TestSwitchPassesOthers(t *testing.T) {
	l, sw, stop := switched(t)
	require.NoError(t, pingPong(l))
	stop()
	for i := range 2 {
		require.NotZero(t, sw.Counters(i).Sent)
		require.Zero(t, sw.Counters(i).Dropped)
	}
}

// What comes while the switch has no processor, and is more than its socket has room for, is counted: as dropped.
func TestSwitchCountsWhatItMisses(t *testing.T) {
	l, sw := opened(t)
	in, f := packetSocket(t, l.hosts[0], 0), writeFrame(1024)
	for range 40_000 { // of 1.1 kB each, and the socket has 16 MiB
		write(t, in, f)
	}
	done := make(chan error, 1)
	go func() { done <- sw.Run() }()
	out := packetSocket(t, l.hosts[1], 0x88b5)
	require.NoError(t, unix.SetsockoptTimeval(out, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 10_000}))
	last := append(bytes.Repeat([]byte{0xff}, 6), append([]byte{2, 0, 0, 0, 0, 8, 0x88, 0xb5}, make([]byte, 46)...)...)
	require.Eventually(t, func() bool { // it goes through when there is room again, and then the others have
		write(t, in, last)
		_, err := unix.Read(out, make([]byte, 100))
		return err == nil
	}, 20*time.Second, time.Millisecond)
	sw.Stop()
	require.NoError(t, <-done)
	c := sw.Counters(1)
	require.NotZero(t, c.Dropped)
	require.Equal(t, c.Frames, c.Sent+c.Dropped)
}

// write sends a frame, or not: the kernel may have no room for it.
func write(t *testing.T, fd int, frame []byte) {
	t.Helper()
	if _, err := unix.Write(fd, frame); err != nil && err != unix.ENOBUFS {
		require.NoError(t, err)
	}
}

// What an interface that is down doesn't take has been dropped, and not sent.
func TestSwitchAtAnInterfaceThatIsDown(t *testing.T) {
	l, sw := opened(t)
	require.NoError(t, l.sw.do(func() error {
		return netlink.LinkSetDown(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: l.ports[1]}})
	}))
	unread := func() (n int) {
		require.NoError(t, l.sw.do(func() error {
			b, err := os.ReadFile("/proc/thread-self/net/packet")
			for line := range strings.Lines(string(b)) {
				const iface, rmem = 4, 6
				if v := strings.Fields(line); len(v) > rmem && v[iface] == strconv.Itoa(l.ports[0]) {
					n, _ = strconv.Atoi(v[rmem])
				}
			}
			return err
		}))
		return n
	}
	in, f := packetSocket(t, l.hosts[0], 0), writeFrame(1024)
	require.Eventually(t, func() bool {
		write(t, in, f)
		return unread() > 0
	}, 20*time.Second, time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- sw.Run() }()
	require.Eventually(t, func() bool { return unread() == 0 }, 20*time.Second, time.Millisecond)
	sw.Stop() // when it has tried to send what it has read
	require.NoError(t, <-done)
	c := sw.Counters(1)
	require.NotZero(t, c.Frames)
	require.Zero(t, c.Sent+c.SentBytes)
	require.Equal(t, c.Frames, c.Dropped)
}

// A frame with a VLAN tag goes nowhere, rather than without its tag into another network; the next one goes on.
func TestSwitchKeepsVLANsApart(t *testing.T) {
	l, _, stop := switched(t)
	const protocol = 0x88b5 // for experiments (IEEE 802)
	in, out := packetSocket(t, l.hosts[0], 0), packetSocket(t, l.hosts[1], protocol)
	require.NoError(t, unix.SetsockoptTimeval(out, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	stations := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 8}
	tagged := append(bytes.Clone(stations), 0x81, 0, 0, 5, protocol>>8, protocol&0xff)
	plain := append(bytes.Clone(stations), protocol>>8, protocol&0xff)
	for _, f := range [][]byte{append(tagged, make([]byte, 46)...), append(plain, bytes.Repeat([]byte{9}, 46)...)} {
		_, err := unix.Write(in, f)
		require.NoError(t, err)
	}
	b := make([]byte, 2000)
	n, err := unix.Read(out, b)
	require.NoError(t, err)
	require.Equal(t, append(plain, bytes.Repeat([]byte{9}, 46)...), b[:n])
	stop()
}

// packetSocket opens a packet socket at a host's link, for sending or for frames of a protocol.
func packetSocket(t *testing.T, h *host, protocol uint16) (fd int) {
	t.Helper()
	require.NoError(t, h.ns.do(func() error {
		dev, err := net.InterfaceByName(h.link)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: dev.Index, Protocol: protocol<<8 | protocol>>8})
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// TestLineWithoutLimit: no line of 0 bit/s is told of where --rate 0 took the limit away.
func TestLineWithoutLimit(t *testing.T) {
	var b strings.Builder
	require.NoError(t, (&experiment{}).head(&b))
	require.Contains(t, b.String(), ", line without limit, queue ")
}

// A table that can't be written, as where the disk is full, is a failure.
func TestTableThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, (&experiment{}).head(full), unix.ENOSPC)
	require.ErrorIs(t, (&experiment{}).line(full, &row{}), unix.ENOSPC)
}

// A row is shown when it is measured, and what was before an interrupt or a failure is kept, as JSON, too.
func TestRowsBeforeAnInterrupt(t *testing.T) {
	for _, fails := range []error{nil, errors.New("no")} {
		file := filepath.Join(t.TempDir(), "results.json")
		e := &experiment{switches: []string{"soft", "drop"}, congestions: []string{"fixed", "bbr:a=1"}, json: file}
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		err := e.rows(ctx, &out, io.Discard, func(_ context.Context, k kind, c string, _ io.Writer) (row, error) {
			if c == "fixed" {
				return row{Kind: k, Congestion: c}, nil
			}
			require.Regexp(t, "(?m)^ +drop +fixed +0.0 Mbit/s", out.String())
			if fails == nil {
				cancel()
				return row{}, errors.New("sdr-perf: exit status 130")
			}
			return row{}, fails
		})
		cancel()
		require.ErrorIs(t, err, cmp.Or(fails, context.Canceled))
		lines := strings.Split(out.String(), "\n")
		require.Len(t, lines[2], len(lines[1]), "aligned")
		require.LessOrEqual(t, len(lines[1]), usage.Columns)
		require.NotContains(t, lines[1], "spurious")
		e.wide = true
		require.NoError(t, e.head(&out))
		require.Contains(t, out.String(), "spurious")
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var rows []row
		require.NoError(t, json.Unmarshal(b, &rows))
		require.Len(t, rows, 2)
	}
}
