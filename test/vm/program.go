// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/initramfs"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
)

// workDir is where a program starts in the VM.
const workDir = "/job/dir"

// runProgram runs one program and ends with its exit status.
func runProgram(ctx context.Context, c *config, argv []string) error {
	host, err := exec.LookPath(argv[0])
	if err != nil && len(c.packages) == 0 {
		return err
	}
	p, err := prepare(ctx, c)
	if err != nil {
		return err
	}
	guest := argv[0] // a program of -package, by its path in the VM
	if host != "" {
		guest = path.Join(vmjob.BinDir, filepath.Base(host))
	}
	job := vmjob.Job{Name: filepath.Base(argv[0]), Argv: append([]string{guest}, argv[1:]...), Dir: workDir, Env: environment(c)}
	status, err := boot(ctx, c, p, bootJobs{
		manifest: vmjob.Manifest{Modules: p.kernel.Modules, Network: network(c), Jobs: []vmjob.Job{job}},
		limit:    c.timeout,
		event: func(e vmjob.Event) {
			if e.Message != "" && !c.verbose {
				progress(e.Message)
			}
		},
		add: func(a *initramfs.Writer) error {
			addPackages(a, p.sysroot)
			if host != "" {
				if err := a.Program(guest, host, p.sysroot, ""); err != nil {
					return err
				}
			}
			a.Dir(workDir)
			if _, err := os.Stat("testdata"); err == nil {
				a.Tree(path.Join(workDir, "testdata"), "testdata", nil)
			}
			return addFiles(a, p, c.files)
		},
	})
	if err != nil {
		return err
	}
	if status != 0 {
		return exitError(status)
	}
	return nil
}

// addFiles copies the files of -file, programs with their libraries.
func addFiles(a *initramfs.Writer, p *prepared, files []string) error {
	for _, f := range files {
		host, guest, ok := strings.Cut(f, ":")
		if !ok {
			guest = path.Join(vmjob.FilesDir, filepath.Base(host))
		}
		if err := a.Program(guest, host, p.sysroot, ""); err != nil {
			return fmt.Errorf("-file %s: %w", f, err)
		}
	}
	return nil
}

func network(c *config) *vmjob.Network {
	return &vmjob.Network{Links: [2]string{"veth0", "veth1"}, MTU: c.mtu, RDMA: [2]string{"rxe0", "rxe1"}}
}

// environment is what programs in the VM see.
func environment(c *config) []string {
	env := []string{
		"PATH=" + vmjob.BinDir + ":" + vmjob.FilesDir + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "TMPDIR=/tmp", "TERM=dumb", "SDR_VM=1",
	}
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(key, "SDR_") || key == "GODEBUG" || key == "GOTRACEBACK" {
			env = append(env, kv)
		}
	}
	return append(env, c.env...)
}
