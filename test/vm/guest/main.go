// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command guest is PID 1 of the test VM. It mounts what programs expect, loads the kernel
// modules, makes the links and rxe devices of the manifest, runs its jobs one after another and
// powers off. What it does is reported as events (vmjob.Event) on a serial port of their own.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
	"golang.org/x/sys/unix"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "touch":
		touch()
		return
	case len(os.Args) == 2 && os.Args[1] == "stress":
		if err := stress(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case os.Getpid() != 1:
		fmt.Fprintln(os.Stderr, "guest is the init program of the test VM; start it with: go run ./test/vm -- PROGRAM")
		os.Exit(2)
	}
	if err := run(); err != nil {
		report(vmjob.Event{Kind: vmjob.Failed, Message: err.Error()})
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Fprintln(os.Stderr, "power off:", err)
	}
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	report(vmjob.Event{Kind: vmjob.Booted, Kernel: release()})
	m, err := readManifest()
	if err != nil {
		return err
	}
	for _, name := range m.Modules {
		if err := loadModule(filepath.Join(vmjob.ModulesDir, name+".ko")); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	unlimited := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, unlimited); err != nil {
		return fmt.Errorf("raise the memlock limit: %w", err)
	}
	if err := setUpNetwork(m.Network); err != nil {
		return err
	}
	if err := setUpUplink(m.Uplink); err != nil {
		return err
	}
	report(vmjob.Event{Kind: vmjob.Ready})
	for _, j := range m.Jobs {
		report(vmjob.Event{Kind: vmjob.Start, Job: j.Name})
		status, err := runJob(j)
		e := vmjob.Event{Kind: vmjob.Exit, Job: j.Name, Status: status}
		if err != nil {
			e.Message = err.Error()
		}
		report(e)
	}
	report(vmjob.Event{Kind: vmjob.Done})
	return nil
}

// mountAll mounts the file systems that a program may expect.
func mountAll() error {
	for _, m := range []struct {
		kind, at string
		optional bool
	}{
		{"proc", "/proc", false}, {"sysfs", "/sys", false}, {"devtmpfs", "/dev", false}, {"tmpfs", "/tmp", false},
		{"tmpfs", "/run", false}, {"tmpfs", "/dev/shm", false}, {"devpts", "/dev/pts", true},
		{"bpf", "/sys/fs/bpf", true}, {"tracefs", "/sys/kernel/tracing", true},
	} {
		err := os.MkdirAll(m.at, 0o755)
		if err == nil {
			err = unix.Mount(m.kind, m.at, m.kind, 0, "")
		}
		if err != nil && !m.optional {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	return os.Chmod("/tmp", 0o1777)
}

func readManifest() (*vmjob.Manifest, error) {
	b, err := os.ReadFile(vmjob.ManifestPath)
	if err != nil {
		return nil, err
	}
	m := new(vmjob.Manifest)
	return m, json.Unmarshal(b, m)
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(u.Release[:])
}

func uptime() float64 {
	b, _ := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(b), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// report writes one event; when even that fails, the console is what is left.
func report(e vmjob.Event) {
	e.Uptime = uptime()
	b, err := json.Marshal(e)
	if err == nil {
		err = writeTTY(vmjob.EventTTY, append(b, '\n'))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "init: %v: %+v\n", err, e)
	}
}

func writeTTY(path string, b []byte) error {
	f, err := openTTY(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(b)
	return err
}
