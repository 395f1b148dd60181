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

// PageEnv sets the size of the pages that devices show programs, in bytes: a power of two, and a multiple of the machine's. With 65536
// they look as under kernels of arm64 that have pages of 64 KiB.
const PageEnv = "SDR_FAKEVERBS_PAGE"

// pageSize is what is mapped of a UAR, of which an adapter's own page of 4096 bytes is the first part; rings begin at a multiple of it.
var pageSize = func() int {
	if n, err := strconv.Atoi(os.Getenv(PageEnv)); err == nil {
		return n
	}
	return unix.Getpagesize()
}()
