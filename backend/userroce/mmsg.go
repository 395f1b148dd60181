// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// The structures of sendmmsg(2) and recvmmsg(2) on 64-bit Linux. Addresses are uintptr, not pointers:
// the structures are filled once for each packet, and pointers would cost write barriers and keep user
// memory reachable. So what they point to must be on the heap (which Go doesn't move) or mapped, and
// must be kept reachable by other means: here all of it is in, or referred to by, the Device.

type iovec struct {
	base uintptr
	len  uint64
}

type msghdr struct {
	name       uintptr
	namelen    uint32
	_          uint32
	iov        uintptr
	iovlen     uint64
	control    uintptr
	controllen uint64
	flags      int32
	_          int32
}

type mmsghdr struct {
	hdr msghdr
	len uint32
	_   uint32
}

// sockName has room for a raw IPv4 or IPv6 socket address.
type sockName [unix.SizeofSockaddrInet6]byte

// cmsgSpace holds one control message with an integer: a cmsghdr of 16 bytes and the value, padded.
type cmsgSpace struct {
	len   uint64
	level int32
	typ   int32
	value int32
	_     int32
}

const (
	cmsgHeader = 16
	cmsgLen16  = cmsgHeader + 2 // UDP_SEGMENT carries a uint16 …
	cmsgLen32  = cmsgHeader + 4 // … and UDP_GRO an int
)

// The sizes that the kernel expects; a negative array length stops the build.
var (
	_ [0]struct{} = [unsafe.Sizeof(iovec{}) - 16]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(msghdr{}) - 56]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(mmsghdr{}) - 64]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(cmsgSpace{}) - 24]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(msghdr{}.iov) - unsafe.Offsetof(unix.Msghdr{}.Iov)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(msghdr{}.control) - unsafe.Offsetof(unix.Msghdr{}.Control)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(msghdr{}.controllen) - unsafe.Offsetof(unix.Msghdr{}.Controllen)]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(msghdr{}.flags) - unsafe.Offsetof(unix.Msghdr{}.Flags)]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(msghdr{}) - unix.SizeofMsghdr]struct{}{}
)

// sendmmsg sends the messages without waiting and returns how many were taken. It is a raw system call,
// which the Go scheduler doesn't see: it can't block.
func sendmmsg(fd int, m []mmsghdr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])),
		uintptr(len(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// recvmmsg receives into the messages without waiting and returns how many arrived.
func recvmmsg(fd int, m []mmsghdr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])),
		uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// recvErrors takes the oldest messages of a socket's error queue, as many as there are and fit, and returns how many it took.
func recvErrors(fd int, m []mmsghdr) int {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])),
		uintptr(len(m)), unix.MSG_DONTWAIT|unix.MSG_ERRQUEUE, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// socketDrops returns how many datagrams and trains the kernel has dropped at a socket because its buffer
// was full, modulo 2^32, or 0 where it doesn't report that (before Linux 4.12). It is the counter that SO_RXQ_OVFL
// attaches to what is received later. Asked for here, it includes what was lost after the last packet that was received.
func socketDrops(fd int) uint32 {
	const drops = 8 // SK_MEMINFO_DROPS, linux/sock_diag.h
	var info [drops + 1]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 || size < uint32(unsafe.Sizeof(info)) {
		return 0
	}
	return info[drops]
}

// addressOf returns where b is, or 0 for an empty slice. b must not be on a stack.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
