// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/initramfs"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/qemu"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
)

// bootJobs is one boot of the VM.
type bootJobs struct {
	manifest vmjob.Manifest
	// add puts programs and files of the jobs into the initramfs.
	add   func(*initramfs.Writer) error
	limit time.Duration
	// event, when not nil, sees the jobs' events.
	event func(vmjob.Event)
	quiet bool
	// cable, when not nil, connects the VM to another one. mac is its interface's address.
	cable *os.File
	mac   string
	// output, when not nil, gets what the jobs print instead of stdout.
	output io.Writer
}

// mostBoots is how often a VM is started whose kernel dies before init has run: on 2026-11-27 an emulated one did, in an interrupt while
// it patched its own code.
const mostBoots = 3

// boot runs the jobs and returns the first exit status that is not 0. A KVM that -accel auto took
// and that ends the VM after all is not used again: the jobs start anew, emulated.
func boot(ctx context.Context, c *config, p *prepared, b bootJobs) (int, error) {
	for boots := 1; ; boots++ {
		begun, watched := false, b
		watched.event = func(e vmjob.Event) {
			begun = true
			if b.event != nil {
				b.event(e)
			}
		}
		status, err := bootOnce(ctx, c, p, watched)
		var died *qemu.CrashError
		switch {
		case !errors.As(err, &died):
			return status, err
		case c.accel == "auto" && p.accel == qemu.KVM:
			progress(fmt.Sprintf("KVM failed, starting again with emulation: %v", err))
			p.accel = qemu.TCG
			if err := rememberAccel(c, qemu.TCG); err != nil {
				return 0, err
			}
		case begun || boots == mostBoots:
			return status, err
		default:
			progress(fmt.Sprintf("the kernel died before init had run, starting again: %v", err))
		}
	}
}

func bootOnce(ctx context.Context, c *config, p *prepared, b bootJobs) (int, error) {
	dir, err := os.MkdirTemp("", "go-sdr-vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitrd(initrd, p, b); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.limit, fmt.Errorf("time limit of %v (raise it with -timeout)", b.limit))
	defer cancel()
	status, ended := 0, 0
	var failed error
	m := qemu.Machine{
		Arch: p.kernel.Arch, Kernel: p.kernel.Image, Initrd: initrd, Accel: p.accel, MemoryMiB: c.memory, CPUs: c.cpus,
		Output: b.out(), Cable: b.cable, MAC: b.mac,
		Event: func(e vmjob.Event) {
			switch e.Kind {
			case vmjob.Exit:
				ended++
				if status == 0 {
					status = e.Status
				}
			case vmjob.Failed:
				failed = errors.New("init: " + e.Message)
			}
			if c.verbose && !b.quiet {
				progress(strings.TrimSpace(fmt.Sprintf("[%6.2f s] %s %s %s %s", e.Uptime, e.Kind, e.Kernel, e.Job, e.Message)))
			}
			if b.event != nil {
				b.event(e)
			}
		},
	}
	if err := m.Run(ctx); err != nil {
		return status, err
	}
	if failed == nil && ended != len(b.manifest.Jobs) {
		failed = fmt.Errorf("%d of %d jobs ended", ended, len(b.manifest.Jobs))
	}
	return status, failed
}

func (b *bootJobs) out() io.Writer {
	switch {
	case b.quiet:
		return io.Discard
	case b.output != nil:
		return b.output
	}
	return os.Stdout
}

func writeInitrd(path string, p *prepared, b bootJobs) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	manifest, err := json.Marshal(b.manifest)
	if err != nil {
		return err
	}
	a := initramfs.NewWriter(f, p.kernel.Arch)
	a.CharDevice("/dev/console", 5, 1)
	a.CopyFile("/init", p.init)
	a.File(vmjob.ManifestPath, 0o644, manifest)
	a.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	a.File("/etc/group", 0o644, []byte("root:x:0:\n"))
	a.File("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	a.Dir("/root")
	for _, name := range b.manifest.Modules {
		a.CopyFile(filepath.Join(vmjob.ModulesDir, name+".ko"), filepath.Join(p.kernel.ModuleDir, name+".ko"))
	}
	if b.add != nil {
		if err := b.add(a); err != nil {
			return err
		}
	}
	return a.Close()
}

// addPackages adds the unpacked packages without what no program in the VM reads.
func addPackages(a *initramfs.Writer, sysroot string) {
	if sysroot == "" {
		return
	}
	useless := map[string]bool{"usr/share/doc": true, "usr/share/man": true, "usr/share/locale": true, "usr/include": true}
	a.Tree("/", sysroot, func(rel string, d fs.DirEntry) bool {
		return !useless[rel] && d.Name() != "gconv" && !strings.HasSuffix(rel, ".a")
	})
}
