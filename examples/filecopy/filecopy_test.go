// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// The test binary is filecopy itself when this is set, so that the ends are real processes.
const (
	asFilecopy = "FILECOPY_TEST_RUN"
	fileLimit  = "FILECOPY_TEST_FILE_LIMIT" // bytes, RLIMIT_FSIZE
)

func TestMain(m *testing.M) {
	if os.Getenv(asFilecopy) == "" {
		os.Exit(m.Run())
	}
	if n, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			panic(err)
		}
	}
	main()
}

// waitLimit bounds waits for processes that end, or go on, by themselves unless the code is wrong: a busy machine may let them stand for long.
const waitLimit = 2 * time.Minute

// A process is a running filecopy.
type process struct {
	cmd    *exec.Cmd
	stderr stream
	done   chan struct{}
	exit   int // after done
}

// A stream collects output and shows it at any time.
type stream struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// start runs filecopy; the test ends it.
func start(t *testing.T, env string, args ...string) *process {
	t.Helper()
	p := prepare(t, args...)
	p.cmd.Env = append(p.cmd.Env, env)
	p.begin(t)
	return p
}

// prepare makes a filecopy that begin starts.
func prepare(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asFilecopy+"=1")
	p.cmd.Stderr = &p.stderr
	return p
}

func (p *process) begin(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		p.exit = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
}

func (p *process) errors() string { return p.stderr.String() }

// waitFor waits until stderr contains text.
func (p *process) waitFor(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.errors(), text) }, waitLimit, 5*time.Millisecond,
		"stderr never said %q", text)
}

// ends waits for the process to end within d.
func (p *process) ends(t *testing.T, d time.Duration, status int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // which shows what it is doing
		<-p.done
		t.Fatalf("still running after %v; stderr: %s", d, p.errors())
	}
	require.Equal(t, status, p.exit, p.errors())
}

// lastLine is the error message.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.errors()), "\n")
	return lines[len(lines)-1]
}

// listening is the address that a receiver says it waits on.
func (p *process) listening(t *testing.T) string {
	t.Helper()
	const mark = "waiting for a sender on "
	p.waitFor(t, mark)
	_, rest, _ := strings.Cut(p.errors(), mark)
	require.Eventually(t, func() bool { _, rest, _ = strings.Cut(p.errors(), mark); return strings.Contains(rest, "\n") }, waitLimit, time.Millisecond)
	addr, _, _ := strings.Cut(rest, "\n")
	return addr
}

// rdma is a loopback address that no other test process uses, as a flag.
func rdma(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("--addr=127.%d.%d.%d", 128+pid>>14&63, pid>>7&127, pid&127<<1|i)
}

// randomFile has n bytes that no compression or mistake reproduces.
func randomFile(t *testing.T, n units.Bytes) (path string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(content)
	path = filepath.Join(t.TempDir(), "original")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path, content
}

// onlyHolds checks that a directory holds nothing but these names: no temporary file is left.
func onlyHolds(t *testing.T, dir string, names ...string) {
	t.Helper()
	found := []string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(t, names, found)
}

var badLink = []string{"--rtt", "4ms", "--rate", "1gbit", "--reorder", "0.1", "--duplicate", "0.01"}

func TestCopy(t *testing.T) {
	for _, ip := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, drop := range []string{"0", "0.001", "0.01"} {
			t.Run(ip+" drop "+drop, func(t *testing.T) {
				recvAddr, sendAddr := []string{rdma(0)}, []string{rdma(1)}
				if ip[0] == '[' {
					skipWithoutIPv6(t)
					recvAddr, sendAddr = []string{"--udp-port", "any"}, nil // the sender finds a port by itself
				}
				src, want := randomFile(t, 4*units.MiB+17)
				dir := t.TempDir()
				out := filepath.Join(dir, "copy")
				require.NoError(t, os.WriteFile(out, []byte("the older copy"), 0o600))
				link := append([]string{"--drop", drop}, badLink...)

				r := start(t, "", append(append([]string{"recv", "--listen", ip, "--out", out}, recvAddr...), link...)...)
				s := start(t, "", append(append([]string{"send", "--to", r.listening(t), src}, sendAddr...), link...)...)
				s.ends(t, waitLimit, 0)
				r.ends(t, waitLimit, 0)
				got, err := os.ReadFile(out)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), "the content differs")
				onlyHolds(t, dir, "copy")
			})
		}
	}
}

func skipWithoutIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this host: %v", err)
	}
	l.Close()
}

func TestCopyNothing(t *testing.T) {
	src, _ := randomFile(t, 0)
	out := filepath.Join(t.TempDir(), "copy")
	r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", out, rdma(0))
	s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
	s.ends(t, waitLimit, 0)
	r.ends(t, waitLimit, 0)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Empty(t, got)
}

// underWay starts a transfer that takes seconds and returns when data flows.
func underWay(t *testing.T, recvEnv string, more ...string) (r, s *process, dir string) {
	t.Helper()
	slow := append([]string{"--rate", "100mbit"}, more...)
	src, _ := randomFile(t, 48*units.MiB)
	dir = t.TempDir()
	r = start(t, recvEnv, append([]string{"recv", "--listen", "127.0.0.1:0", "--out", filepath.Join(dir, "copy"), rdma(0)}, slow...)...)
	s = start(t, "", append([]string{"send", "--to", r.listening(t), src, rdma(1)}, slow...)...)
	s.waitFor(t, "sending")
	return r, s, dir
}

func TestPeerIsKilled(t *testing.T) {
	t.Run("sender", func(t *testing.T) {
		r, s, dir := underWay(t, "")
		require.NoError(t, s.cmd.Process.Kill())
		r.ends(t, waitLimit, exitFailure)
		require.Contains(t, r.lastLine(), "its process was killed")
		onlyHolds(t, dir)
	})
	t.Run("receiver", func(t *testing.T) {
		r, s, dir := underWay(t, "")
		require.NoError(t, r.cmd.Process.Kill())
		s.ends(t, waitLimit, exitFailure)
		require.Contains(t, s.lastLine(), "its process was killed")
		onlyHolds(t, dir)
	})
}

// A stopped process keeps its TCP connection: only the silence limit notices.
func TestPeerIsSilent(t *testing.T) {
	r, s, dir := underWay(t, "", "--silence", "1s")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	r.ends(t, waitLimit, exitFailure)
	require.Contains(t, r.lastLine(), "for 1 s", "the silence limit")
	onlyHolds(t, dir)
}

// TestPermissions: a copy is as private as its original, and as what it replaces, and as old.
func TestPermissions(t *testing.T) {
	mask := os.FileMode(unix.Umask(0))
	unix.Umask(int(mask))
	for _, c := range []struct{ original, older, want os.FileMode }{
		{0o600, 0, 0o600},
		{0o644, 0, 0o644},
		{0o755, 0, 0o755},
		{0o644, 0o600, 0o600},
		{0o600, 0o640, 0o640},
	} {
		t.Run(fmt.Sprintf("%o over %o", c.original, c.older), func(t *testing.T) {
			src, _ := randomFile(t, 5000)
			require.NoError(t, os.Chmod(src, c.original))
			changed := time.Date(2001, 2, 3, 4, 5, 6, 789000, time.UTC)
			require.NoError(t, os.Chtimes(src, changed, changed))
			out := filepath.Join(t.TempDir(), "copy")
			if c.older != 0 {
				require.NoError(t, os.WriteFile(out, nil, c.older))
				require.NoError(t, os.Chmod(out, c.older))
			}
			r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", out, rdma(0))
			s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
			s.ends(t, waitLimit, 0)
			r.ends(t, waitLimit, 0)
			fi, err := os.Stat(out)
			require.NoError(t, err)
			want := c.want
			if c.older == 0 {
				want &^= mask
			}
			require.Equal(t, want, fi.Mode().Perm())
			require.True(t, changed.Equal(fi.ModTime()), "changed %v", fi.ModTime())
			require.NotContains(t, s.errors()+r.errors(), "\r", "a bar is for terminals")
		})
	}
}

func TestInterrupt(t *testing.T) {
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP) // so that a process that is started doesn't ignore it, as under nohup
	defer signal.Stop(taken)
	for _, stop := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		r, s, dir := underWay(t, "")
		require.NoError(t, r.cmd.Process.Signal(stop))
		r.ends(t, waitLimit, exitInterrupted)
		s.ends(t, waitLimit, exitFailure)
		require.Contains(t, r.lastLine(), "interrupted")
		require.Contains(t, s.lastLine(), "the receiver failed")
		onlyHolds(t, dir)
	}
}

func TestDiskIsFull(t *testing.T) {
	r, s, dir := underWay(t, fileLimit+"=20000000")
	r.ends(t, waitLimit, exitFailure)
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, r.lastLine(), "file too large")
	require.Contains(t, s.lastLine(), "the receiver failed")
	require.Contains(t, s.lastLine(), "file too large")
	require.Contains(t, s.lastLine(), filepath.Join(dir, "copy"))
	onlyHolds(t, dir)
}

func TestSchemesDiffer(t *testing.T) {
	src, _ := randomFile(t, 1)
	dir := t.TempDir()
	r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", filepath.Join(dir, "copy"), "--scheme", "sr", rdma(0))
	s := start(t, "", "send", "--to", r.listening(t), src, "--scheme", "sr-nack", rdma(1))
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, s.lastLine(), "give both ends the same")
	r.waitFor(t, "turned a peer away")
	require.Contains(t, r.errors(), "give both ends the same")
	onlyHolds(t, dir)
	s = start(t, "", "send", "--to", r.listening(t), src, "--scheme", "sr", rdma(1))
	s.ends(t, waitLimit, 0)
	r.ends(t, waitLimit, 0)
	onlyHolds(t, dir, "copy")
}

// TestBadVisitors: whoever comes and is no sender is turned away, and the receiver waits for one that is.
func TestBadVisitors(t *testing.T) {
	src, content := randomFile(t, 5000)
	out := filepath.Join(t.TempDir(), "copy")
	r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", out, rdma(0))
	at := r.listening(t)
	visit := func() *oob.Conn {
		c, err := oob.Dial(t.Context(), at, oob.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	const escape = "\x1b[2J\n forged line"
	require.NoError(t, visit().Close())
	require.NoError(t, visit().Send(t.Context(), []byte(escape)))
	_, err := visit().Exchange(t.Context(), []byte(escape))
	require.NoError(t, err, "the receiver's half")
	const hello = "SDRN\x01\x00\x10\x00\x00\x04\x00\x00" // of package sdrnet
	c := visit()
	_, err = c.Exchange(t.Context(), []byte(hello))
	require.NoError(t, err)
	_, _ = c.Exchange(t.Context(), []byte(escape)) // the receiver's half may come before it knows
	c = visit()
	_, err = c.Exchange(t.Context(), []byte(hello))
	require.NoError(t, err)
	require.NoError(t, c.CloseWithReason(escape))
	for _, says := range []string{escape, "filecopy 4", "", "", "", ""} { // peers that sdrnet takes
		peer, err := sdrnet.Dial(t.Context(), at, &sdrnet.Config{Addr: netip.MustParseAddr("127.0.0.1"), PrivateData: []byte(says)})
		if err != nil { // the receiver may be done with it before the connection stands
			require.ErrorContains(t, err, "this is a filecopy receiver")
			continue
		}
		t.Cleanup(func() { peer.Close() })
	}
	for range 2 * 64 { // silent ones
		nc, err := net.Dial("tcp", at)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = nc.Write([]byte("SDRx\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")) // the first frame of package oob
		require.NoError(t, err)
		// The receiver's hello says that it is an sdr endpoint, and what follows that sdrnet has taken the peer. Of those that no
		// application has taken yet, package oob turns the last away.
		require.NoError(t, nc.SetReadDeadline(time.Now().Add(waitLimit)))
		_, err = io.ReadFull(nc, make([]byte, 16+1))
		require.NoError(t, err)
	}
	s := start(t, "", "send", "--to", at, src, rdma(1))
	s.ends(t, waitLimit, 0)
	r.ends(t, waitLimit, 0)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, content, got)
	require.Contains(t, r.errors(), "turned a peer away")
	require.NotContains(t, r.errors(), "\x1b")
	require.NotContains(t, r.errors(), "\n forged line")
}

func TestUDPPortTaken(t *testing.T) {
	addr := strings.TrimPrefix(rdma(0), "--addr=")
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4791)))
	require.NoError(t, err)
	defer c.Close()
	src, _ := randomFile(t, 1)
	dir := t.TempDir()
	r := start(t, "", "recv", "--listen", "127.0.0.1:0", "--out", filepath.Join(dir, "copy"), rdma(0), "--udp-port", "4791")
	s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
	r.ends(t, waitLimit, exitFailure)
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, r.lastLine(), "UDP port 4791")
	require.Contains(t, r.lastLine(), "choose another port")
	require.Contains(t, s.lastLine(), "UDP port 4791", "the sender should hear why")
	onlyHolds(t, dir)
}

func TestMistakes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	taken := l.Addr().String()
	defer l.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refused := free.Addr().String()
	free.Close()
	src, _ := randomFile(t, 1)
	dir := t.TempDir()
	out := filepath.Join(dir, "copy")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))

	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"receive"}, exitUsage, `"receive": the commands are send and recv`},
		{[]string{"send", src}, exitUsage, "filecopy send --to HOST original.bin"},
		{[]string{"send", "--to", refused}, exitUsage, "filecopy send --to HOST original.bin"},
		{[]string{"send", src, refused}, exitUsage, "filecopy send --to HOST original.bin"},
		{[]string{"recv", src}, exitUsage, "--out says where"},
		{[]string{"recv", "--lsten", refused}, exitUsage, "unknown flag: --lsten; did you mean --listen?"},
		{[]string{"send", "--nonsense", src}, exitUsage, "unknown flag: --nonsense: filecopy send --help says what there is"},
		{[]string{"send", "--to", refused, "--rtt", "25", src}, exitUsage, "the unit is missing"},
		{[]string{"send", "--to", refused, "--rate", "-1gbit", src}, exitUsage, "must not be negative"},
		{[]string{"send", "--to", refused, "--rate", "0", src}, exitUsage, "choose more than 0 bit/s, or leave it out"},
		{[]string{"send", "--to", refused, "--rtt", "0", src}, exitUsage, "choose more than 0, or leave it out"},
		{[]string{"send", "--to", refused, "--drop", "1.5", src}, exitUsage, "1.5"},
		{[]string{"send", "--to", refused, "--scheme", "tcp", src}, exitUsage, "choose among adaptive, ec-mds"},
		{[]string{"send", "--to", refused, "--udp-port", "70000", src}, exitUsage, "give a number from 1 to 65534, or any"},
		{[]string{"send", "--to", refused, "--silence", "1ms", src}, exitUsage, "at least 100 ms"},
		{[]string{"send", "--to", refused, src}, exitFailure, "is the server running there"},
		{[]string{"send", "--to", "host.invalid:1", src}, exitFailure, "host.invalid"},
		{[]string{"send", "--to", "nonsense.invalid", src}, exitFailure, "nonsense.invalid"},
		{[]string{"send", "--to", refused, src + ".none"}, exitFailure, "no such file"},
		{[]string{"send", "--to", refused, dir}, exitFailure, "tar c "},
		{[]string{"recv", "--listen", taken, "--out", out}, exitFailure, "choose another port"},
		{[]string{"recv", "--listen", refused, "--out", pipe}, exitFailure, "not a regular file"},
		{[]string{"recv", "--listen", refused, "--out", dir + "/none/copy"}, exitFailure, "no such file"},
		{[]string{"recv", "--listen", "203.0.113.1:1", "--out", out}, exitFailure, "no interface of this host"},
	} {
		t.Run(strings.Join(c.args[:min(2, len(c.args))], " ")+": "+c.says, func(t *testing.T) {
			p := start(t, "", c.args...)
			p.ends(t, waitLimit, c.status)
			require.Contains(t, p.errors(), c.says)
			require.Equal(t, 1, strings.Count(p.errors(), "\n"), "an error is one line:\n%s", p.errors())
			onlyHolds(t, dir)
		})
	}
}
