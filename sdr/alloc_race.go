// SPDX-License-Identifier: Apache-2.0

//go:build race

package sdr

import (
	"os"
	"reflect"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// AllocBuffer returns page-aligned heap memory, so that the race detector sees it; see the
// version without -race.
func AllocBuffer(n units.Bytes) ([]byte, error) {
	if n <= 0 {
		return nil, &OpError{Op: "allocate", Object: n.String(), Err: ErrArgument, Detail: "the size must be positive"}
	}
	// More than there is would end the process in make, so that the kernel is asked first.
	probe, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		err = unix.Munmap(probe)
	}
	if err != nil {
		return nil, &OpError{Op: "allocate", Object: n.String(), Err: err}
	}
	page := units.Bytes(os.Getpagesize())
	b := make([]byte, n+page-1)
	skip := -units.Bytes(reflect.ValueOf(b).Pointer()) & (page - 1)
	return b[skip : skip+n : skip+n], nil
}

// FreeBuffer returns memory of AllocBuffer. Nothing may use it any more.
func FreeBuffer([]byte) error { return nil }
