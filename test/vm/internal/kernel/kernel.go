// SPDX-License-Identifier: Apache-2.0

// Package kernel turns a Debian kernel package into what the VM boots: the uncompressed image
// and the modules it loads, each once, kept in the user's cache folder.
package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/debian"
)

// Newest is the line of the newest kernel that the archive has.
const Newest = "newest"

// staysNewest is how long that is taken for the newest. Then the archive is asked again, if it can be reached.
const staysNewest = 7 * 24 * time.Hour

// A line is where kernels of a kind are found: the suite, of which none means the newest of all, the architecture, and the package that
// stands for the newest of them.
type line struct{ suite, arch, pkg string }

// lines are the kernels that can be asked for by name. Those of arm64 are there for their pages, of 16 KiB.
var lines = map[string]line{
	"6.1":      {"bookworm", AMD64, "linux-image-amd64"},
	"6.12":     {"bookworm-backports", AMD64, "linux-image-amd64"},
	"6.12-16k": {"bookworm-backports", ARM64, "linux-image-arm64-16k"},
	Newest:     {"", AMD64, "linux-image-amd64"},
}

// Architectures, as Go and Debian both call them.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Source tells of a line's packages the architecture, and the suites of the archive in which they are looked for.
func Source(name string) (arch string, suites []string) {
	if name == Newest {
		return lines[name].arch, debian.Newest
	}
	return lines[name].arch, debian.Bookworm
}

// optional are the modules that not all kernels have: rxe of Linux 6 asks the crypto layer for its CRC,
// that of Linux 7 has it from a library.
var optional = []string{"crc32_generic"}

// modules are loaded in every VM: rxe, the links and queueing disciplines that tests use, and the
// plumbing of VMs connected to each other.
var modules = []string{
	"ib_uverbs", "rdma_rxe", "rdma_ucm", "veth", "dummy", "sch_netem", "sch_fq", "sch_tbf", "sch_ingress",
	"cls_bpf", "virtio_pci", "virtio_net",
}

// Lines are the kernel lines that can be asked for.
func Lines() []string { return slices.Sorted(maps.Keys(lines)) }

// Kernel is a prepared kernel.
type Kernel struct {
	// Release is what uname -r says inside, or the file's name of an image that is no package's.
	Release string `json:"release"`
	// Arch is the architecture.
	Arch string `json:"-"`
	// Image is the path of the uncompressed kernel.
	Image string `json:"image"`
	// Modules are the names of the modules in loading order; their files are ModuleDir/NAME.ko.
	Modules   []string `json:"modules"`
	ModuleDir string   `json:"module_dir"`

	built time.Time
}

// Prepare returns the kernel of a line, such as "6.1", from the cache folder or else from the
// archive, which open provides when it is needed and has the architecture and suites of Source. progress is told of slow
// steps, and of a newest kernel that may be none any more. A name with a slash is the path of an image that needs no modules.
func Prepare(ctx context.Context, cache, name string, open func() (*debian.Archive, error), progress func(string)) (*Kernel, error) {
	if strings.Contains(name, "/") {
		return ownImage(name)
	}
	l, ok := lines[name]
	if !ok {
		return nil, fmt.Errorf("no kernel line %q: there are %s", name, strings.Join(Lines(), ", "))
	}
	dir := folder(cache, name)
	k, err := load(dir, l.arch)
	switch {
	case err != nil:
		return fetch(ctx, cache, dir, l, open, progress)
	case name != Newest || time.Since(k.built) < staysNewest:
		return k, nil
	}
	newer, err := fetch(ctx, cache, dir, l, open, progress)
	if err != nil && ctx.Err() == nil { // offline
		problem, _, _ := strings.Cut(err.Error(), "\n")
		progress(fmt.Sprintf("takes %s, the newest kernel on %s: %s", k.Release, k.built.Format(time.DateOnly), problem))
		return k, nil
	}
	return newer, err
}

// folder is the cache's for a line with the modules of today.
func folder(cache, line string) string {
	stamp := sha256.Sum256([]byte(strings.Join(append(optional, modules...), " ")))
	return filepath.Join(cache, fmt.Sprintf("kernel-%s-%x", line, stamp[:4]))
}

// fetch downloads the kernel of a line and builds it in dir.
func fetch(ctx context.Context, cache, dir string, l line, open func() (*debian.Archive, error), progress func(string)) (*Kernel, error) {
	archive, err := open()
	if err != nil {
		return nil, err
	}
	packages, err := archive.KernelPackages(ctx, l.pkg, l.suite)
	if err != nil {
		return nil, err
	}
	progress("downloading " + strings.Join(packages, " "))
	unpacked, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(unpacked)
	if err := archive.Unpack(ctx, unpacked, packages...); err != nil {
		return nil, err
	}
	progress("unpacking kernel and modules")
	return build(ctx, unpacked, dir, l.arch)
}

// build fills a folder beside dir and renames it, so that an interrupted run leaves nothing half made.
func build(ctx context.Context, unpacked, dir, arch string) (*Kernel, error) {
	release, image, tree, err := locate(unpacked)
	if err != nil {
		return nil, err
	}
	tmp := dir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(tmp, "modules"), 0o755); err != nil {
		return nil, err
	}
	k := &Kernel{Release: release}
	if err := writeImage(ctx, arch, image, filepath.Join(tmp, "vmlinux")); err != nil {
		return nil, err
	}
	wanted := append(tree.present(optional), modules...)
	if k.Modules, err = tree.extract(ctx, filepath.Join(tmp, "modules"), wanted); err != nil {
		return nil, err
	}
	b, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "kernel.json"), b, 0o644); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil { // of an older kernel
		return nil, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return nil, err
	}
	return load(dir, arch)
}

// locate finds the image and the modules of unpacked packages. Up to Linux 6 the image lies in boot/
// and the modules in lib/modules/RELEASE; the split packages of Linux 7 have both in usr/lib/modules/RELEASE.
func locate(unpacked string) (release, image string, t *tree, err error) {
	old, _ := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	split, _ := filepath.Glob(filepath.Join(unpacked, "usr", "lib", "modules", "*", "vmlinuz"))
	var modules string
	switch {
	case len(old) == 1 && len(split) == 0:
		release = strings.TrimPrefix(filepath.Base(old[0]), "vmlinuz-")
		image, modules = old[0], filepath.Join(unpacked, "lib", "modules", release)
	case len(split) == 1 && len(old) == 0:
		image, modules = split[0], filepath.Dir(split[0])
		release = filepath.Base(modules)
	default:
		return "", "", nil, fmt.Errorf("the kernel packages have %d images boot/vmlinuz-* and %d usr/lib/modules/*/vmlinuz, want one",
			len(old), len(split))
	}
	t, err = readTree(modules)
	return release, image, t, err
}

func load(dir, arch string) (*Kernel, error) {
	file := filepath.Join(dir, "kernel.json")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	k := &Kernel{Arch: arch}
	if err := json.Unmarshal(b, k); err != nil {
		return nil, err
	}
	k.Image, k.ModuleDir, k.built = filepath.Join(dir, "vmlinux"), filepath.Join(dir, "modules"), st.ModTime()
	return k, nil
}
