// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uapi

import (
	"fmt"
	"runtime"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxAttributes is more than any method here takes.
const maxAttributes = 16

// inlineSize is the largest input that travels inside the attribute itself.
const inlineSize = 8

// Call is one ioctl in the making: the header, its attributes, and pins on the memory that they
// point to. Use it once; it is not safe for concurrent use.
type Call struct {
	// buf is what the kernel sees, and where it writes new handles.
	buf *callBuffer
	m   *Method
	pin runtime.Pinner
}

type callBuffer struct {
	_     structs.HostLayout
	hdr   IoctlHdr
	attrs [maxAttributes]Attr
}

// NewCall starts a call of a method.
func NewCall(m *Method) *Call {
	c := &Call{buf: new(callBuffer), m: m}
	c.buf.hdr.ObjectId, c.buf.hdr.MethodId = m.Object, m.ID
	c.pin.Pin(c.buf)
	return c
}

// add appends an attribute. A call that does not fit the table is a bug of the caller, found by
// the first test that makes it, hence the panic.
func (c *Call) add(a Attribute, kind Kind, size uintptr) *Attr {
	if t := c.m.attribute(a.ID); t == nil || *t != a || a.Kind != kind || a.Size != 0 && uintptr(a.Size) != size {
		panic(fmt.Sprintf("uapi: %s: attribute %#x used as kind %d, size %d: not in the table", c.m.Name, a.ID, kind, size))
	}
	x := &c.buf.attrs[c.buf.hdr.NumAttrs]
	c.buf.hdr.NumAttrs++
	x.AttrId = a.ID
	if !a.Optional {
		x.Flags = UVERBS_ATTR_F_MANDATORY
	}
	return x
}

// PutIn passes *v. It must stay unchanged until Do returns.
func PutIn[T any](c *Call, a Attribute, v *T) {
	size := unsafe.Sizeof(*v)
	x := c.add(a, In, size)
	x.Len = uint16(size)
	if size <= inlineSize {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&x.Data)), inlineSize), unsafe.Slice((*byte)(unsafe.Pointer(v)), size))
		return
	}
	c.pin.Pin(v)
	x.Data = uint64(uintptr(unsafe.Pointer(v)))
}

// PutInBytes passes v, of more than 8 bytes. It must stay unchanged until Do returns.
func PutInBytes(c *Call, a Attribute, v []byte) {
	x := c.add(a, In, uintptr(len(v)))
	x.Len = uint16(len(v))
	c.pin.Pin(&v[0])
	x.Data = uint64(uintptr(unsafe.Pointer(&v[0])))
}

// PutOut has the kernel fill *v.
func PutOut[T any](c *Call, a Attribute, v *T) {
	x := c.add(a, Out, unsafe.Sizeof(*v))
	x.Len = uint16(unsafe.Sizeof(*v))
	c.pin.Pin(v)
	x.Data = uint64(uintptr(unsafe.Pointer(v)))
}

// PutOutSlice has the kernel fill v, which must not be empty.
func PutOutSlice[T any](c *Call, a Attribute, v []T) {
	size := unsafe.Sizeof(v[0]) * uintptr(len(v))
	x := c.add(a, Out, size)
	x.Len = uint16(size)
	c.pin.Pin(&v[0])
	x.Data = uint64(uintptr(unsafe.Pointer(&v[0])))
}

// PutConst passes a constant.
func (c *Call) PutConst(a Attribute, v uint64) {
	x := c.add(a, Const, 0)
	x.Len, x.Data = 8, v
}

// PutHandle passes an existing object.
func (c *Call) PutHandle(a Attribute, handle uint32) { c.add(a, Handle, 0).Data = uint64(handle) }

// PutFD passes a file.
func (c *Call) PutFD(a Attribute, fd int) { c.add(a, FD, 0).Data = uint64(fd) }

// PutNew asks for a new handle or file; Result returns it after Do.
func (c *Call) PutNew(a Attribute) { c.add(a, a.Kind, 0) }

// Result is the new handle or file of an attribute that PutNew added.
func (c *Call) Result(a Attribute) uint32 {
	for i := range c.buf.hdr.NumAttrs {
		if c.buf.attrs[i].AttrId == a.ID {
			return uint32(c.buf.attrs[i].Data)
		}
	}
	return 0
}

// Abandon releases the pins of a call that is not made.
func (c *Call) Abandon() { c.pin.Unpin() }

// Do makes the call on an uverbs file and releases the pins. The error is the plain errno.
func (c *Call) Do(fd int, driver uint32) error {
	defer c.pin.Unpin()
	c.finish(driver)
	if e := c.ioctl(fd); e != 0 {
		return e
	}
	return nil
}

func (c *Call) finish(driver uint32) {
	c.buf.hdr.DriverId = driver
	c.buf.hdr.Length = uint16(unsafe.Sizeof(IoctlHdr{})) + c.buf.hdr.NumAttrs*uint16(unsafe.Sizeof(Attr{}))
}

func (c *Call) ioctl(fd int) unix.Errno {
	for {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), RDMA_VERBS_IOCTL, uintptr(unsafe.Pointer(c.buf)))
		if e != unix.EINTR {
			return e
		}
	}
}

// A Doorbell is a call prepared once and made often, without allocation: an empty POST_SEND, by
// which the kernel takes the requests that are already in the mapped send queue.
type Doorbell struct {
	call *Call
	fd   int
	cmd  PostSend
	resp PostSendResp
}

// WQE size that POST_SEND wants to see at least, sizeof(struct ib_uverbs_send_wr).
const sendWrSize = 56

// NewDoorbell prepares the doorbell of a QP. Free must be called when the QP is gone.
func NewDoorbell(fd int, driver, qpHandle uint32) *Doorbell {
	d := &Doorbell{fd: fd, cmd: PostSend{QpHandle: qpHandle, WqeSize: sendWrSize}}
	c := NewCall(&UVERBS_METHOD_INVOKE_WRITE)
	c.PutConst(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_POST_SEND)
	PutIn(c, UVERBS_ATTR_CORE_IN, &d.cmd)
	PutOut(c, UVERBS_ATTR_CORE_OUT, &d.resp)
	c.finish(driver)
	d.call = c
	return d
}

// Ring makes the call; 0 means success. The Go scheduler is told of it, as of every system call.
func (d *Doorbell) Ring() unix.Errno { return d.call.ioctl(d.fd) }

// RingBriefly is Ring for calls that take some microseconds. The Go scheduler isn't told, so its
// monitor doesn't wake up every 20 microseconds to take the processor away from a thread that is
// back in a moment; a longer call would delay the garbage collector.
func (d *Doorbell) RingBriefly() unix.Errno {
	for {
		_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(d.fd), RDMA_VERBS_IOCTL, uintptr(unsafe.Pointer(d.call.buf)))
		if e != unix.EINTR {
			return e
		}
	}
}

// Free releases the memory that the kernel was shown.
func (d *Doorbell) Free() { d.call.pin.Unpin() }

// NewWrite prepares INVOKE_WRITE of one write command: in goes to the kernel, out comes back; out may be nil. A provider's
// attributes can be added.
func NewWrite[I, O any](cmd uint32, in *I, out *O) *Call {
	c := NewCall(&UVERBS_METHOD_INVOKE_WRITE)
	c.PutConst(UVERBS_ATTR_WRITE_CMD, uint64(cmd))
	PutIn(c, UVERBS_ATTR_CORE_IN, in)
	if out != nil {
		PutOut(c, UVERBS_ATTR_CORE_OUT, out)
	}
	return c
}

// None is the type of an absent output.
type None struct{}
