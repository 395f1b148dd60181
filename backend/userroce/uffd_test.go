// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stallingPage is a page whose first access blocks, in the middle of whatever instruction makes it,
// until release: userfaultfd(2), restricted to faults in user mode, which needs no privilege.
type stallingPage struct {
	t        *testing.T
	fd       int
	mem      []byte
	released bool
}

// linux/userfaultfd.h
const (
	uffdUserModeOnly    = 1
	uffdAPI             = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdioZeropage      = 0xc020aa04
	uffdRegisterMissing = 1
	uffdMsgSize         = 32
)

func newStallingPage(t *testing.T) *stallingPage {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if errno != 0 {
		t.Skipf("userfaultfd is not available here: %v", errno)
	}
	s := &stallingPage{t: t, fd: int(fd)}
	t.Cleanup(func() { unix.Close(s.fd) })
	s.ioctl(uffdioAPI, unsafe.Pointer(&[3]uint64{uffdAPI}))
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Munmap(mem) })
	s.mem = mem
	s.ioctl(uffdioRegister, unsafe.Pointer(&[4]uint64{uint64(addressOf(mem)), uint64(len(mem)), uffdRegisterMissing}))
	return s
}

func (s *stallingPage) ioctl(request uintptr, arg unsafe.Pointer) {
	s.t.Helper()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), request, uintptr(arg))
	require.Zero(s.t, errno, "%v", errno)
}

// waitForStall returns when somebody is blocked at the page. After the given milliseconds it returns false, and nobody blocks any more: a
// test that fails would wait for them for ever when it lets the garbage collector go on.
func (s *stallingPage) waitForStall(ms int) bool {
	s.t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		_, _ = unix.Poll(fds, ms)
		n, err := unix.Read(s.fd, make([]byte, uffdMsgSize))
		if err == nil {
			require.Equal(s.t, uffdMsgSize, n)
			return true
		}
		// The scheduler's signals interrupt the poll, and an access too, which then blocks again.
		if err != unix.EAGAIN {
			break
		}
	}
	s.release()
	return false
}

// release fills the page with zeros and lets the blocked access go on.
func (s *stallingPage) release() {
	s.t.Helper()
	if s.released {
		return
	}
	s.released = true
	s.ioctl(uffdioZeropage, unsafe.Pointer(&[4]uint64{uint64(addressOf(s.mem)), uint64(len(s.mem))}))
}
