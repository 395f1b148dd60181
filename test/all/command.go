// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// grace is what a command has between SIGTERM, on which it may clean up, and SIGKILL. Tests shorten it.
var grace = 3 * time.Second

// exec runs argv in the root of the module, in a process group of its own, and returns when no
// process of it is left: when ctx ends, the group is terminated, then killed; what has
// moved to another group is found as an orphan.
func (c *stepContext) exec(env []string, stdout, stderr io.Writer, argv ...string) error {
	return c.execIn(c.root, env, stdout, stderr, argv...)
}

func (c *stepContext) execIn(dir string, env []string, stdout, stderr io.Writer, argv ...string) error {
	cmd := c.command(dir, env, argv...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return c.run(cmd)
}

func (c *stepContext) command(dir string, env []string, argv ...string) *exec.Cmd {
	c.trace(env, argv)
	cmd := exec.CommandContext(c.ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+c.tmp)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd
}

func (c *stepContext) run(cmd *exec.Cmd) error {
	c.commands.RLock()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH: the usual case
	}
	c.commands.RUnlock()
	if !c.commands.TryLock() {
		return err // the last of the commands that run side by side looks for orphans
	}
	defer c.commands.Unlock()
	if left := killOrphans(); len(left) > 0 && c.ctx.Err() == nil {
		c.printf("%s: ended processes that %s had left behind: %s", c.name, cmd.Args[0], strings.Join(left, ", "))
	}
	return err
}

// output runs argv and returns what it wrote to stdout and stderr.
func (c *stepContext) output(env []string, argv ...string) (string, error) {
	var out bytes.Buffer
	err := c.exec(env, &out, &out, argv...)
	return out.String(), err
}

// A lineWriter emits whole lines. It serves one command, whose writes don't overlap.
type lineWriter struct {
	emit func(string)
	buf  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for {
		i := bytes.IndexByte(w.buf, '\n')
		if i < 0 {
			return len(p), nil
		}
		w.emit(string(w.buf[:i]))
		w.buf = w.buf[i+1:]
	}
}

// adoptOrphans makes this process the parent of descendants whose own parent ends, so that
// killOrphans can find what left its process group (prctl(2), PR_SET_CHILD_SUBREAPER).
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killOrphans kills and reaps all children of this process, which are orphans while it runs no
// command. It returns the names of those that were still running.
func killOrphans() (left []string) {
	for pids := children(); len(pids) > 0; pids = children() { // theirs become ours
		for _, pid := range pids {
			comm, state := processState(pid)
			if state != "Z" {
				left = append(left, comm)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
	return left
}

func children() (pids []int) {
	lists, _ := os.ReadDir("/proc/self/task")
	for _, task := range lists {
		b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// processState reads name and state from /proc/PID/stat, "PID (NAME) STATE …".
func processState(pid int) (comm, state string) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	text := string(b)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open || len(text) < end+3 {
		return fmt.Sprint(pid), "Z"
	}
	return text[open+1 : end], text[end+2 : end+3]
}

// untilOrphaned ends when the process that started this one is gone: "go run" passes no signal on
// when it is killed itself.
func untilOrphaned(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
