// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllocBuffer returns n bytes of zeroed, page-aligned memory outside the Go heap, to be registered
// and later given back with FreeBuffer. Memory of the heap can be registered too, because Go does
// not move it; but its pages are shared with other objects and are never aligned to order.
func AllocBuffer(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, &Error{Op: "allocate", Object: fmt.Sprintf("buffer of %d bytes", n), Err: err}
	}
	return b, nil
}

// FreeBuffer returns memory of AllocBuffer, after its memory regions have been closed. b must be
// the whole slice that AllocBuffer returned, or nil, of which nothing is to be freed.
func FreeBuffer(b []byte) error {
	if b == nil {
		return nil
	}
	if err := unix.Munmap(b); err != nil {
		return &Error{Op: "free", Object: "buffer", Err: err}
	}
	return nil
}
