// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"golang.org/x/sys/unix"
)

// Exit statuses of a shell, for jobs that could not be started or were ended by a signal.
const (
	statusNotStarted = 127
	statusSignal     = 128
)

// runJob runs one job with its output on the output port and returns its exit status.
func runJob(j vmjob.Job) (int, error) {
	out, err := openTTY(vmjob.OutputTTY)
	if err != nil {
		return statusNotStarted, err
	}
	defer out.Close()
	ctx := context.Background()
	if j.LimitSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(j.LimitSeconds)*time.Second)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, j.Argv[0], j.Argv[1:]...)
	cmd.Dir, cmd.Env = j.Dir, j.Env
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own: what the job leaves behind must not disturb the next one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	if ctx.Err() != nil {
		return statusSignal + int(unix.SIGKILL), fmt.Errorf("ended after its limit of %d s", j.LimitSeconds)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return statusNotStarted, err
		}
		return 0, nil
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return statusSignal + int(ws.Signal()), fmt.Errorf("ended by signal %v", ws.Signal())
	}
	return exit.ExitCode(), nil
}

// openTTY opens a serial port without the terminal's rewriting of line ends.
func openTTY(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
