// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// largePage is that of the processors that there are kernels with transparent large pages for.
const largePage = 2 << 20

// useLargePages asks the kernel for large pages wherever this process has much memory in one piece: the heap. A simulation reads
// memory all over hundreds of megabytes, for which a processor has too few entries of page tables at hand. Linux gives them to who
// asks (transparent_hugepage/enabled is "madvise" as a rule), and the Go runtime doesn't. It is a hint: errors don't matter, and
// a later call is for what has been allocated since.
func useLargePages() {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// from-to rw-p offset device inode, and a name unless the memory is nobody's file.
		field := strings.Fields(lines.Text())
		if len(field) != 5 || field[1] != "rw-p" || field[4] != "0" {
			continue
		}
		first, last, _ := strings.Cut(field[0], "-")
		from, err1 := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err1 != nil || err2 != nil || to < from+2*largePage {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_HUGEPAGE)
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_COLLAPSE)
	}
}
