// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

var (
	le = binary.LittleEndian
	be = binary.BigEndian
)

// attr is struct ib_uverbs_attr, and where it lies.
type attr struct {
	id, len, flags uint16
	data           uint64
	at             uint64
}

const attrMandatory = 1

// request is one ioctl on a device file.
type request struct {
	call           *usernotif.Call
	mem            usernotif.Memory
	object, method uint16
	driver         uint32
	attrs          []attr
	note           string // for the log
	// err is the first error of reading and writing attributes.
	err unix.Errno
}

// parse reads the request as the kernel's ib_uverbs_ioctl does.
func parse(call *usernotif.Call) (*request, unix.Errno) {
	r := &request{call: call, mem: call.Memory}
	var h [24]byte
	if r.mem.Read(call.Arg, h[:]) != nil {
		return nil, unix.EFAULT
	}
	n := int(le.Uint16(h[6:]))
	r.object, r.method, r.driver = le.Uint16(h[2:]), le.Uint16(h[4:]), le.Uint32(h[16:])
	if int(le.Uint16(h[0:])) != 24+16*n || 24+16*n > 4096 {
		return nil, unix.EINVAL
	}
	if le.Uint64(h[8:]) != 0 || le.Uint32(h[20:]) != 0 {
		return nil, unix.EPROTONOSUPPORT
	}
	raw := make([]byte, 16*n)
	if r.mem.Read(call.Arg+24, raw) != nil {
		return nil, unix.EFAULT
	}
	for i := range n {
		b := raw[16*i:]
		a := attr{id: le.Uint16(b), len: le.Uint16(b[2:]), flags: le.Uint16(b[4:]), data: le.Uint64(b[8:]),
			at: call.Arg + 24 + 16*uint64(i)}
		if a.flags&^attrMandatory != 0 || r.find(a.id) != nil {
			return nil, unix.EINVAL
		}
		r.attrs = append(r.attrs, a)
	}
	return r, 0
}

func (r *request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "object %#x method %#x", r.object, r.method)
	for _, a := range r.attrs {
		fmt.Fprintf(&b, " %#x/%d", a.id, a.len)
	}
	return b.String()
}

func (r *request) find(id uint16) *attr {
	for i := range r.attrs {
		if r.attrs[i].id == id {
			return &r.attrs[i]
		}
	}
	return nil
}

func (r *request) fail(e unix.Errno) {
	if r.err == 0 {
		r.err = e
	}
}

// only refuses attributes that the method doesn't know, as the kernel does.
func (r *request) only(known ...uint16) {
	for _, a := range r.attrs {
		found := false
		for _, k := range known {
			found = found || a.id == k
		}
		if !found && a.flags&attrMandatory != 0 {
			r.fail(unix.EPROTONOSUPPORT)
		}
	}
}

// in is the data of an input attribute, size bytes of it: the rest of a shorter one is zero. A longer one
// must be zero beyond, as ib_copy_from_udata's callers check.
func (r *request) in(id uint16, size int) []byte {
	b := make([]byte, size)
	a := r.find(id)
	if a == nil {
		return b
	}
	all := make([]byte, a.len)
	if a.len <= 8 {
		all = le.AppendUint64(nil, a.data)[:a.len]
	} else if r.mem.Read(a.data, all) != nil {
		r.fail(unix.EFAULT)
	}
	n := copy(b, all)
	for _, x := range all[n:] {
		if x != 0 {
			r.fail(unix.EOPNOTSUPP)
		}
	}
	return b
}

// data is the data of an input attribute of any length.
func (r *request) data(id uint16) []byte {
	if a := r.find(id); a != nil {
		return r.in(id, int(a.len))
	}
	r.fail(unix.EINVAL)
	return nil
}

func (r *request) u32(id uint16) uint32 { return le.Uint32(r.in(id, 4)) }
func (r *request) u64(id uint16) uint64 { return le.Uint64(r.in(id, 8)) }

// handle is the value of an input attribute that names an object or a file, 0 without it.
func (r *request) handle(id uint16) uint32 {
	if a := r.find(id); a != nil {
		return uint32(a.data)
	}
	return 0
}

// out writes an output attribute, as much of b as there is room for; without one, nothing.
func (r *request) out(id uint16, b []byte) {
	a := r.find(id)
	if a == nil {
		return
	}
	if r.mem.Write(a.data, b[:min(len(b), int(a.len))]) != nil {
		r.fail(unix.EFAULT)
	}
}

// room is the size of an output attribute.
func (r *request) room(id uint16) int {
	if a := r.find(id); a != nil {
		return int(a.len)
	}
	return 0
}

func (r *request) out32(id uint16, v uint32) { r.out(id, le.AppendUint32(nil, v)) }
func (r *request) out64(id uint16, v uint64) { r.out(id, le.AppendUint64(nil, v)) }

// made tells the handle or the file of a new object.
func (r *request) made(id uint16, handle uint32) {
	a := r.find(id)
	if a == nil {
		r.fail(unix.EINVAL)
		return
	}
	if r.mem.Write(a.at+8, le.AppendUint64(nil, uint64(handle))) != nil {
		r.fail(unix.EFAULT)
	}
}
