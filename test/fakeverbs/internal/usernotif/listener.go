// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usernotif

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrEnded says that the program, with all its children, has ended.
var ErrEnded = errors.New("usernotif: program ended")

// errGone says that the caller of a call was killed meanwhile.
var errGone = errors.New("usernotif: caller gone")

// Listener is the file through which calls are received and answered.
type Listener struct{ fd int }

// Close closes the listener. Trapped calls of the program fail from then on with ENOSYS.
func (l *Listener) Close() error { return unix.Close(l.fd) }

// Operation is which call was trapped.
type Operation uint8

// Operations.
const (
	Open Operation = iota
	Stat
	Ioctl
	Write
)

// WriteSize is the size of the only writes that are trapped: of a doorbell on a device file (struct ib_uverbs_post_send with its
// header). Others that have it go on.
const WriteSize = 32

// Call is a system call of the program, which waits for one of Continue, Return, Written, Fail, GiveFile and
// GiveStat.
type Call struct {
	l *Listener
	n seccompNotif

	Op Operation
	// Memory is the caller's.
	Memory Memory
	// Path of Open and Stat; empty where the call names a file by its descriptor alone.
	Path string
	// FD is the file descriptor of Ioctl and Write, and of Stat when Path is empty.
	FD int
	// Arg is the third argument of ioctl, and where what is written lies.
	Arg  uint64
	stat uint64
}

// Receive waits for the next call.
func (l *Listener) Receive() (*Call, error) {
	for {
		c := &Call{l: l}
		fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return nil, err
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			return nil, ErrEnded
		}
		switch e := l.ioctl(ioctlNotifRecv, unsafe.Pointer(&c.n)); e {
		case 0:
			c.decode()
			return c, nil
		case unix.EINTR, unix.ENOENT: // a signal, or the caller was killed
		default:
			return nil, e
		}
	}
}

// ioctl repeats a call that a signal of the Go runtime interrupted: none of them has had an effect then.
func (l *Listener) ioctl(op uintptr, arg unsafe.Pointer) unix.Errno {
	for {
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), op, uintptr(arg)); e != unix.EINTR {
			return e
		}
	}
}

func (c *Call) decode() {
	a := &c.n.Args
	c.Memory = Memory{PID: int(c.n.PID)}
	switch c.n.NR {
	case unix.SYS_OPENAT:
		c.Op, c.Path = Open, c.Memory.path(a[1])
	case sysFstatat:
		c.Op, c.FD, c.Path, c.stat = Stat, int(int32(a[0])), c.Memory.path(a[1]), a[2]
	case unix.SYS_FSTAT:
		c.Op, c.FD, c.stat = Stat, int(int32(a[0])), a[1]
	case unix.SYS_WRITE:
		c.Op, c.FD, c.Arg = Write, int(int32(a[0])), a[1]
	default:
		c.Op, c.FD, c.Arg = Ioctl, int(int32(a[0])), a[2]
	}
}

func (c *Call) send(r seccompNotifResp) error {
	r.ID = c.n.ID
	switch e := c.l.ioctl(ioctlNotifSend, unsafe.Pointer(&r)); e {
	case 0:
		return nil
	case unix.ENOENT:
		return errGone
	default:
		return e
	}
}

// Continue has the kernel do the call.
func (c *Call) Continue() error { return c.send(seccompNotifResp{Flags: seccompUserNotifFlagContinue}) }

// Return ends the call with 0.
func (c *Call) Return() error { return c.send(seccompNotifResp{}) }

// Written ends Write: all was taken.
func (c *Call) Written() error { return c.send(seccompNotifResp{Val: WriteSize}) }

// Fail ends the call with an errno.
func (c *Call) Fail(e unix.Errno) error { return c.send(seccompNotifResp{Error: -int32(e)}) }

// GiveStat ends Stat with what the program is to see.
func (c *Call) GiveStat(st *unix.Stat_t) error {
	if err := c.Memory.Write(c.stat, unsafe.Slice((*byte)(unsafe.Pointer(st)), unsafe.Sizeof(*st))); err != nil {
		return c.Fail(unix.EFAULT)
	}
	return c.Return()
}

// GiveFile ends Open with a new descriptor of the file fd, which the caller may close. It takes two calls on
// purpose: when SECCOMP_ADDFD_FLAG_SEND is interrupted, the file is not given, and the program's open returns 0.
func (c *Call) GiveFile(fd int) error {
	n, err := c.AddFile(fd)
	if err != nil {
		return err
	}
	return c.send(seccompNotifResp{Val: int64(n)})
}

// AddFile gives the program a descriptor of the file fd without ending the call.
func (c *Call) AddFile(fd int) (int, error) {
	a := seccompNotifAddfd{ID: c.n.ID, Srcfd: uint32(fd), NewfdFlags: unix.O_CLOEXEC}
	for {
		n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.l.fd), ioctlNotifAddfd, uintptr(unsafe.Pointer(&a)))
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}
