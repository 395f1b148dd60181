// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package flexio

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Window is host memory that a device stores aligned 64-bit words to, while the host reads them.
type Window struct{ mem []byte }

// NewWindow maps at least n bytes, zeroed.
func NewWindow(n int) (*Window, error) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, (n+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map the window: %w", err)
	}
	return &Window{mem}, nil
}

// Bytes is the memory, for Config.Window.
func (w *Window) Bytes() []byte { return w.mem }

// Address is where it begins.
func (w *Window) Address() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(w.mem)))) }

// Load reads the word at an offset, which is a multiple of 8. What the device wrote back before it is to be seen after.
func (w *Window) Load(offset uint64) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&w.mem[offset : offset+8][0])))
}

// Clear zeroes n bytes that no device stores to.
func (w *Window) Clear(offset, n uint64) { clear(w.mem[offset : offset+n]) }

// Close unmaps the memory.
func (w *Window) Close() error { return unix.Munmap(w.mem) }
