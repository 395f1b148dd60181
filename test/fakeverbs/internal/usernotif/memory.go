// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usernotif

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is that of another process, which must be a child of the calling one or its own.
type Memory struct{ PID int }

// Read reads len(b) bytes from an address.
func (m Memory) Read(addr uint64, b []byte) error {
	return m.transfer("read", unix.ProcessVMReadv, addr, b)
}

// Write writes b to an address.
func (m Memory) Write(addr uint64, b []byte) error {
	return m.transfer("write", unix.ProcessVMWritev, addr, b)
}

// Ended says that the process has given up its memory, as when it was killed: the kernel closes its files only
// after that.
func (m Memory) Ended() bool {
	return errors.Is(m.Read(0, make([]byte, 1)), unix.ESRCH)
}

type vmCall func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

func (m Memory) transfer(verb string, call vmCall, addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := call(m.PID, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("%s %d bytes at %#x of process %d: %w", verb, len(b), addr, m.PID, err)
	}
	return nil
}

// maxPath is longer than any path that is looked for.
const maxPath = 160

// path reads the beginning of a string. One that is not readable is left to the kernel to complain about.
func (m Memory) path(addr uint64) string {
	b := make([]byte, maxPath)
	// Not past the end of the page: the next one may not be there.
	b = b[:min(maxPath, 4096-addr%4096)]
	if m.Read(addr, b) != nil {
		return ""
	}
	s, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < maxPath {
		more := make([]byte, maxPath-len(b))
		if m.Read(addr+uint64(len(b)), more) == nil {
			more, _, _ = bytes.Cut(more, []byte{0})
			s = append(s, more...)
		}
	}
	return string(s)
}

// Shared is memory that a program maps, too: a file in memory.
type Shared struct {
	mem   []byte
	words []uint64 // the same memory
	fd    int
}

// NewShared makes shared memory of size bytes, a multiple of 8.
func NewShared(name string, size int) (*Shared, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Shared{mem: mem, words: unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), size/8), fd: fd}, nil
}

// FD is the file that the program is to be given.
func (s *Shared) FD() int { return s.fd }

// FileID is a file's number and that of its file system, by which it is known in any process that has it.
type FileID struct{ Dev, Ino uint64 }

// ID is the file's.
func (s *Shared) ID() (FileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(s.fd, &st)
	return FileID{st.Dev, st.Ino}, err
}

// Take returns the 8 bytes at off, as they lie there, and leaves zeros. off is a multiple of 8.
func (s *Shared) Take(off int) (b [8]byte) {
	p := &s.words[off/8]
	if atomic.LoadUint64(p) == 0 {
		return b
	}
	v := atomic.SwapUint64(p, 0)
	return *(*[8]byte)(unsafe.Pointer(&v))
}

// Bytes is a part of the memory.
func (s *Shared) Bytes(off, n int) []byte { return s.mem[off : off+n : off+n] }

// Load32 and Store32 read and write a word that the program may look at meanwhile; off is a multiple of 4.
func (s *Shared) Load32(off int) uint32 { return atomic.LoadUint32(s.word(off)) }

// Store32 is Load32's counterpart.
func (s *Shared) Store32(off int, v uint32) { atomic.StoreUint32(s.word(off), v) }

func (s *Shared) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&s.mem[off])) }

// Close unmaps the memory here; a program that has it keeps it.
func (s *Shared) Close() {
	_ = unix.Munmap(s.mem)
	unix.Close(s.fd)
}
