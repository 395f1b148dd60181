// SPDX-License-Identifier: Apache-2.0

// Package kernel turns a Debian kernel package into what the VM boots: the uncompressed image
// and the modules it loads, each once, kept in the user's cache folder.
package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/debian"
)

// suites tells where each kernel line is found.
var suites = map[string]string{"6.1": "bookworm", "6.12": "bookworm-backports"}

// modules are loaded in every VM: rxe with what it asks for through the crypto layer, the links
// and queueing disciplines that tests use, and the plumbing of VMs connected to each other.
var modules = []string{
	"crc32_generic", "ib_uverbs", "rdma_rxe", "rdma_ucm", "veth", "dummy", "sch_netem", "sch_fq", "sch_tbf", "sch_ingress",
	"cls_bpf", "virtio_pci", "virtio_net",
}

// Lines are the kernel lines that can be asked for.
func Lines() []string { return slices.Sorted(maps.Keys(suites)) }

// Kernel is a prepared kernel.
type Kernel struct {
	// Release is what uname -r says inside.
	Release string `json:"release"`
	// Image is the path of the uncompressed kernel.
	Image string `json:"image"`
	// Modules are the names of the modules in loading order; their files are ModuleDir/NAME.ko.
	Modules   []string `json:"modules"`
	ModuleDir string   `json:"module_dir"`
}

// Prepare returns the kernel of a line, such as "6.1", from the cache folder or else from the
// archive, which open provides when it is needed. progress is told of slow steps.
func Prepare(ctx context.Context, cache, line string, open func() (*debian.Archive, error), progress func(string)) (*Kernel, error) {
	suite, ok := suites[line]
	if !ok {
		return nil, fmt.Errorf("no kernel line %q: there are %s", line, strings.Join(Lines(), ", "))
	}
	stamp := sha256.Sum256([]byte(strings.Join(modules, " ")))
	dir := filepath.Join(cache, fmt.Sprintf("kernel-%s-%x", line, stamp[:4]))
	if k, err := load(dir); err == nil {
		return k, nil
	}
	archive, err := open()
	if err != nil {
		return nil, err
	}
	pkg, err := archive.KernelPackage(ctx, suite)
	if err != nil {
		return nil, err
	}
	progress("downloading " + pkg)
	unpacked, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(unpacked)
	if err := archive.Unpack(ctx, unpacked, pkg); err != nil {
		return nil, err
	}
	progress("unpacking kernel and modules")
	return build(ctx, unpacked, dir)
}

// build fills a folder beside dir and renames it, so that an interrupted run leaves nothing half made.
func build(ctx context.Context, unpacked, dir string) (*Kernel, error) {
	images, _ := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	if len(images) != 1 {
		return nil, errors.New("the kernel package has no single boot/vmlinuz")
	}
	tmp := dir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(tmp, "modules"), 0o755); err != nil {
		return nil, err
	}
	k := &Kernel{Release: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")}
	if err := uncompress(ctx, images[0], filepath.Join(tmp, "vmlinux")); err != nil {
		return nil, err
	}
	tree, err := readTree(filepath.Join(unpacked, "lib", "modules", k.Release))
	if err != nil {
		return nil, err
	}
	if k.Modules, err = tree.extract(ctx, filepath.Join(tmp, "modules"), modules); err != nil {
		return nil, err
	}
	b, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "kernel.json"), b, 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return nil, err
	}
	return load(dir)
}

func load(dir string) (*Kernel, error) {
	b, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return nil, err
	}
	k := new(Kernel)
	if err := json.Unmarshal(b, k); err != nil {
		return nil, err
	}
	k.Image, k.ModuleDir = filepath.Join(dir, "vmlinux"), filepath.Join(dir, "modules")
	return k, nil
}
