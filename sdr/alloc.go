// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sdr

import (
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// AllocBuffer returns zeroed, page-aligned memory outside the Go heap, in which a
// device may write at any time without the garbage collector minding. Free it
// with FreeBuffer once its MR is closed. Built with -race it is heap memory, so
// that the race detector sees it.
func AllocBuffer(n units.Bytes) ([]byte, error) {
	if n <= 0 {
		return nil, &OpError{Op: "allocate", Object: n.String(), Err: ErrArgument, Detail: "the size must be positive"}
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, &OpError{Op: "allocate", Object: n.String(), Err: err}
	}
	return b, nil
}

// FreeBuffer returns memory of AllocBuffer. Nothing may use it any more.
func FreeBuffer(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.Munmap(b)
}
