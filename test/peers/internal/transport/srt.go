// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed srt/srt.c
var srtSource []byte

// SRTPackages are the Debian packages that SRT is built from.
var SRTPackages = []string{"gcc", "libc6-dev", "libsrt-openssl-dev"}

func toolsForSRT() error {
	_, err := exec.LookPath("gcc")
	if err == nil {
		_, err = os.Stat("/usr/include/srt/srt.h")
	}
	if err != nil {
		return fmt.Errorf("%w: apt-get install %s", err, strings.Join(SRTPackages, " "))
	}
	return nil
}

// BuildSRT builds the program that speaks SRT in folder.
func BuildSRT(folder string) (program string, err error) {
	source := filepath.Join(folder, "srt.c")
	program = filepath.Join(folder, "srt")
	if err := os.WriteFile(source, srtSource, 0o600); err != nil {
		return "", err
	}
	if text, err := exec.Command("gcc", "-O2", "-Wall", "-o", program, source, "-lsrt").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building with libsrt: %w\n%s", err, text)
	}
	return program, nil
}

// SRTProgram is the environment variable that names the program.
const SRTProgram = "PEERS_SRT"

// srtMTU is the largest that libsrt accepts.
const srtMTU = 1500

// An srt is a program of its own that shares the buffer.
type srt struct {
	buf     []byte
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	version string
}

func newSRT(o Options) (_ Endpoint, err error) {
	s := new(srt)
	shared, err := unix.MemfdCreate("transfer", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(shared), "transfer")
	defer file.Close()
	if err := file.Truncate(int64(o.Buffer)); err != nil {
		return nil, err
	}
	if s.buf, err = unix.Mmap(shared, 0, o.Buffer, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	side := "send"
	if o.Side == Receiving {
		side = "receive"
	}
	s.cmd = exec.Command(os.Getenv(SRTProgram), side, o.Local.String(), o.Remote.String(),
		strconv.Itoa(port), strconv.Itoa(min(o.MTU, srtMTU)), strconv.Itoa(o.Buffer))
	s.cmd.ExtraFiles = []*os.File{file}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the program for SRT: %w", err)
	}
	s.version, err = s.line()
	return s, err
}

func (s *srt) Buffer() []byte { return s.buf }

// ask gives a command. Ending ctx ends the program.
func (s *srt) ask(ctx context.Context, command string) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })()
	if _, err := fmt.Fprintln(s.in, command); err != nil {
		return "", err
	}
	return s.line()
}

func (s *srt) line() (string, error) {
	text, err := s.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if reason, failed := strings.CutPrefix(text, "!"); failed {
		return "", errors.New("libsrt: " + reason)
	}
	return text, nil
}

func (s *srt) Connect(ctx context.Context) error {
	_, err := s.ask(ctx, "connect")
	return err
}

func (s *srt) Expect(int) error { return nil }

func (s *srt) Receive(ctx context.Context, n int) error {
	_, err := s.ask(ctx, fmt.Sprintf("move %d", n))
	return err
}

func (s *srt) Send(ctx context.Context, n int) (time.Duration, error) {
	text, err := s.ask(ctx, fmt.Sprintf("move %d", n))
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ns), err
}

func (s *srt) Version() string { return "libsrt " + s.version }

func (s *srt) Notes() string { return "" }

// Close ends the program; the buffer stays to the end of this process.
func (s *srt) Close() error {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill() // libsrt would linger
	_ = s.cmd.Wait()         // killed
	return nil
}
