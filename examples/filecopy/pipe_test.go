// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestNobodyReads: the sender hears that the receiver's stdout is closed, and not that a process has died.
func TestNobodyReads(t *testing.T) {
	src, _ := randomFile(t, units.MiB)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	r := prepare(t, "recv", "--listen", "127.0.0.1:0", "--out", "-", rdma(0))
	r.cmd.Stdout = write
	r.begin(t)
	require.NoError(t, errors.Join(read.Close(), write.Close()))
	s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
	r.ends(t, waitLimit, exitFailure)
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, r.lastLine(), "broken pipe")
	require.Contains(t, s.lastLine(), "broken pipe")
}

// TestInterruptWhileReading: Ctrl-C ends a sender whose stdin says nothing more.
func TestInterruptWhileReading(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer write.Close()
	s := prepare(t, "send", "--to", "127.0.0.1:1", "-")
	s.cmd.Stdin = read
	s.begin(t)
	require.NoError(t, read.Close())
	_, err = write.Write(make([]byte, units.MiB)) // more than a pipe holds: then it is being read
	require.NoError(t, err)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	s.ends(t, waitLimit, exitInterrupted)
	require.Contains(t, s.lastLine(), "interrupted")
}

// TestInterruptWhileWriting: Ctrl-C ends a receiver whose stdout takes no more, and the sender hears it.
func TestInterruptWhileWriting(t *testing.T) {
	src, _ := randomFile(t, 4*units.MiB) // more than a pipe holds
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	r := prepare(t, "recv", "--listen", "127.0.0.1:0", "--out", "-", rdma(0))
	r.cmd.Stdout = write
	r.begin(t)
	require.NoError(t, write.Close())
	s := start(t, "", "send", "--to", r.listening(t), src, rdma(1))
	_, err = read.Read(make([]byte, 1)) // the whole file is there, and being written
	require.NoError(t, err)
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	r.ends(t, waitLimit, exitInterrupted)
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, r.lastLine(), "interrupted")
	require.Contains(t, s.lastLine(), "the receiver failed")
}

// TestNamedPipe: what is no file is refused, and not waited for.
func TestNamedPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	s := start(t, "", "send", "--to", "127.0.0.1:1", fifo)
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, s.lastLine(), "not a regular file")
	require.Contains(t, s.lastLine(), "send - <")
}

// TestSizeUnknown: a file that has more than its size says isn't cut to that.
func TestSizeUnknown(t *testing.T) {
	s := start(t, "", "send", "--to", "127.0.0.1:1", "/proc/self/status")
	s.ends(t, waitLimit, exitFailure)
	require.Contains(t, s.lastLine(), "/proc/self/status has more than the 0 B")
	require.Contains(t, s.lastLine(), "send - <")
}

// TestNoRoomToSpool: who can't spool reads where that was tried and how to choose another place.
func TestNoRoomToSpool(t *testing.T) {
	none := "TMPDIR=" + filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"send", "--to", "127.0.0.1:1", "-"}, {"recv", "--listen", "127.0.0.1:0", "--out", "-"}} {
		p := start(t, none, args...)
		p.ends(t, waitLimit, exitFailure)
		require.Contains(t, p.lastLine(), none[len("TMPDIR="):])
		require.Contains(t, p.lastLine(), "set TMPDIR")
	}
	p := prepare(t, "send", "--to", "127.0.0.1:1", "-")
	p.cmd.Env = append(p.cmd.Env, fileLimit+"=1000")
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.begin(t)
	_, _ = stdin.Write(make([]byte, 5000))
	require.NoError(t, stdin.Close())
	p.ends(t, waitLimit, exitFailure)
	require.Contains(t, p.lastLine(), "set TMPDIR")
}

// TestSpoolNeedsRoom: what passes through a temporary file is refused when its size is announced, where there is no room for it.
func TestSpoolNeedsRoom(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := newSpool(t.Context())
	require.NoError(t, err)
	defer s.Close()
	require.ErrorContains(t, s.Begin(sdrnet.FileInfo{Size: 1 << 60}), "make room for 1048576 TiB: ")
	require.ErrorContains(t, s.Begin(sdrnet.FileInfo{Size: 1 << 60}), "set TMPDIR to a folder with room")
	for _, size := range []int64{0, 4096} {
		require.NoError(t, s.Begin(sdrnet.FileInfo{Size: size}))
	}
}
