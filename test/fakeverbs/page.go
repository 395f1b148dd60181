// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// machinePage is the size of a page. Memory and the addresses of its keys lie at the same place within one.
var machinePage = uint64(unix.Getpagesize())

// PageSize is that of the pages that devices show programs, in bytes: the machine's, or what SDR_FAKEVERBS_PAGE says, a power of two and a
// multiple of the machine's. With 65536 they look as under kernels of arm64 that have pages of 64 KiB. So much is mapped of a UAR, of which an
// adapter's own page of 4096 bytes is the first part, and rings begin at a multiple of it.
var PageSize = func() int {
	if n, err := strconv.Atoi(os.Getenv("SDR_FAKEVERBS_PAGE")); err == nil {
		return n
	}
	return unix.Getpagesize()
}()
