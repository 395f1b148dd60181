// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed isal/isal.c
var source []byte

// A peer is the C program that times ISA-L.
type peer struct {
	version string
	folder  string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startISAL builds the program and starts it.
func startISAL() (p *peer, err error) {
	folder, err := os.MkdirTemp("", "isal")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(folder)
		}
	}()
	p = &peer{folder: folder}
	file, program := filepath.Join(folder, "isal.c"), filepath.Join(folder, "isal")
	if err = os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	if text, err := exec.Command("gcc", "-O2", "-Wall", "-o", program, file, "-lisal").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building with ISA-L (on Debian: apt-get install gcc libisal-dev): %w\n%s", err, text)
	}
	p.cmd = exec.Command(program)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err = p.cmd.Start(); err != nil {
		return nil, err
	}
	p.version, err = p.line()
	return p, err
}

func (p *peer) line() (string, error) {
	s, err := p.out.ReadString('\n')
	return strings.TrimSpace(s), err
}

// pass times one pass of w.
func (p *peer) pass(w *work) (time.Duration, error) {
	if _, err := io.WriteString(p.in, w.request()); err != nil {
		return 0, err
	}
	s, err := p.line()
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(s, 10, 64)
	return time.Duration(ns), err
}

func (p *peer) close() {
	p.in.Close()
	_ = p.cmd.Wait()
	os.RemoveAll(p.folder)
}
