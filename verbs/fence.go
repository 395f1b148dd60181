// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// DeregisterFences tells whether MR.Close is a fence: once it has returned nil, no packet changes
// the memory any more, not even one that was being written. rxe waits for the last user of a region
// since Linux 6.0 ("RDMA/rxe: Stop lookup of partially built objects"); before, the memory may
// change for as long as a copy takes. Other drivers are not judged.
func (c *Context) DeregisterFences() bool {
	var u unix.Utsname
	if c.driver != uapi.RDMA_DRIVER_RXE || unix.Uname(&u) != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(u.Release[:]), 6, 0)
}

// atLeast compares a kernel release such as 6.1.0-50-amd64; one that it can't read is old.
func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}
