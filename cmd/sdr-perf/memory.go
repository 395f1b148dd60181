// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// aside is what a transfer takes beside its buffer at most, as far as it grows with the size: bitmaps, parity.
const aside = 128 * units.MiB

// fitsMemory says whether an end's buffers can be had: what can't would only be noticed
// when the machine, or this process's control group, has run out of memory, and somebody is killed.
func (p *params) fitsMemory(size units.Bytes) error { return fitsMemoryOf("/", size, p.buffers()) }

func fitsMemoryOf(root string, size, buffers units.Bytes) error {
	n := maxSize
	if size <= maxSize/buffers {
		n = size * buffers
	}
	free, ok := availableMemory(root)
	if need := n + min(n, aside); !ok || need <= free {
		return nil
	}
	what, choose := "a buffer of that size and what goes with it", "a smaller size"
	if buffers > 1 {
		what, choose = fmt.Sprintf("%d buffers of that size and what goes with them", buffers), "a smaller size, or fewer under way (--inflight, --qps)"
	}
	return fmt.Errorf("--size %v: %s don't fit into the %v of memory that are free here: choose %s", size, what, free, choose)
}

// availableMemory is what this process can still have: the least of what the kernel says for all
// programs and of what the limits of its memory control groups leave.
func availableMemory(root string) (free units.Bytes, ok bool) {
	b, _ := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if kib, found := field(string(b), "MemAvailable:"); found {
		free, ok = kib*units.KiB, true
	}
	b, _ = os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		var h hierarchy
		switch {
		case part[0] == "0" && part[1] == "":
			h = unified
		case part[1] == "memory":
			h = legacy
		default:
			continue
		}
		if left, found := h.left(root, part[2]); found && (!ok || left < free) {
			free, ok = left, true
		}
	}
	return free, ok
}

// A hierarchy is where a version of control groups keeps its limits on memory (cgroups(7)).
type hierarchy struct {
	mount, limit, usage string
	cache               []string // fields of memory.stat: what the kernel takes back when it needs it
}

var (
	unified = hierarchy{"sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}}
	legacy  = hierarchy{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
)

// left is what the group at a path, and those above it, may still have. In a container the path may be
// one that only the host knows; then the groups from the mount's root on are the container's.
func (h hierarchy) left(root, group string) (least units.Bytes, found bool) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		dir := filepath.Join(root, h.mount, at)
		limit, limited := readBytes(filepath.Join(dir, h.limit))
		used, known := readBytes(filepath.Join(dir, h.usage))
		if limited && known {
			stat, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
			for _, name := range h.cache {
				n, _ := field(string(stat), name)
				used -= n
			}
			if left := max(0, limit-max(0, used)); !found || left < least {
				least, found = left, true
			}
		}
		if at == "/" {
			return least, found
		}
	}
}

// readBytes reads a file that holds a number, of bytes; "max" is none.
func readBytes(name string) (units.Bytes, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return units.Bytes(n), err == nil
}

// field finds a line "name number …".
func field(text, name string) (units.Bytes, bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return units.Bytes(n), err == nil
		}
	}
	return 0, false
}
