// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/debian"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/kernel"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/qemu"
	"golang.org/x/sys/unix"
)

const guestPackage = "github.com/sdr-rdma/go-sdr/test/vm/guest"

// prepared is all that a VM needs apart from its jobs.
type prepared struct {
	kernel  *kernel.Kernel
	init    string
	sysroot string // unpacked packages of -package; "" for none
	accel   qemu.Accel
}

// prepare fills the cache, under a lock: go test runs several packages at a time.
func prepare(ctx context.Context, c *config) (*prepared, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the VM's kernel is for amd64, this host is %s", runtime.GOARCH)
	}
	unlock, err := lockCache(c.cache)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.refresh {
		if err := dropCache(c.cache); err != nil {
			return nil, err
		}
	}
	p := &prepared{}
	open := func(arch string, suites []string) func() (*debian.Archive, error) {
		return func() (*debian.Archive, error) {
			progress("asking the Debian archive for " + strings.Join(suites, ", "))
			return debian.Open(ctx, filepath.Join(c.cache, "apt-"+arch+"-"+suites[0]), c.mirror, arch, suites)
		}
	}
	if p.kernel, err = kernel.Prepare(ctx, c.cache, c.kernel, open(kernel.Source(c.kernel)), progress); err != nil {
		return nil, err
	}
	if err := qemu.Installed(p.kernel.Arch); err != nil {
		return nil, err
	}
	if p.sysroot, err = unpackPackages(ctx, c, p.kernel.Arch, open(p.kernel.Arch, debian.Bookworm)); err != nil {
		return nil, err
	}
	p.init = filepath.Join(c.cache, "init-"+p.kernel.Arch)
	if err := p.goBuild(ctx, p.init, guestPackage); err != nil {
		return nil, err
	}
	p.accel, err = chooseAccel(ctx, c, p)
	return p, err
}

func lockCache(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

func dropCache(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// unpackPackages returns the folder with the files of c.packages, unpacked once per set.
func unpackPackages(ctx context.Context, c *config, arch string, open func() (*debian.Archive, error)) (string, error) {
	if len(c.packages) == 0 {
		return "", nil
	}
	names := slices.Sorted(slices.Values(c.packages))
	sum := sha256.Sum256([]byte(strings.Join(names, " ")))
	dir := filepath.Join(c.cache, fmt.Sprintf("packages-%s-%x", arch, sum[:4]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	archive, err := open()
	if err != nil {
		return "", err
	}
	progress("downloading packages " + strings.Join(names, " "))
	tmp := dir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := archive.Unpack(ctx, tmp, names...); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// goBuild builds a static program for the VM.
func (p *prepared) goBuild(ctx context.Context, out, pkg string) error {
	return p.goTool(ctx, "build", "-o", out, pkg)
}

func (p *prepared) goTool(ctx context.Context, args ...string) error {
	return tool(ctx, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + p.kernel.Arch, "GOFLAGS="}, "go", args...)
}

// tool runs a program of the host and puts what it printed into the error.
func tool(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// packageDir is the folder of a package's sources.
func packageDir(ctx context.Context, pkg string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", pkg, err)
	}
	return strings.TrimSpace(string(out)), nil
}
