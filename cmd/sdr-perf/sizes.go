// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// maxSize is beyond every machine's memory, and leaves room for arithmetic.
const maxSize = 64 * units.TiB

// sizes is a flag that holds a list of sizes.
type sizes []units.Bytes

// Set replaces the list.
func (s *sizes) Set(text string) error {
	var list sizes
	for _, t := range strings.Split(text, ",") {
		n, err := units.ParseBytes(t)
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	*s = list
	return nil
}

// Type names the kind of flag.
func (s *sizes) Type() string { return "sizes" }

func (s *sizes) String() string {
	var b []string
	for _, n := range *s {
		b = append(b, strings.ReplaceAll(n.String(), " ", ""))
	}
	return strings.Join(b, ",")
}

// fitsMemory says whether a buffer of n bytes can be had: one that can't would only be noticed
// when the machine has run out of memory.
func fitsMemory(n units.Bytes) error {
	free, ok := availableMemory("/proc/meminfo")
	if ok && n > free {
		return fmt.Errorf("--size %v: a buffer of that size doesn't fit into the %v of memory that are free here: choose a smaller size", n, free)
	}
	return nil
}

// availableMemory is what the kernel says that programs can still have.
func availableMemory(path string) (units.Bytes, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return units.Bytes(kib) * units.KiB, true
		}
	}
	return 0, false
}
