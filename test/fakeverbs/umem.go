// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// umem is memory of the program that firmware commands name by a number.
type umem struct {
	number       uint32
	addr, length uint64
	writable     bool
	users        int
}

func (u *umem) destroy(*Device) unix.Errno {
	if u.users > 0 {
		return unix.EREMOTEIO // the firmware refuses
	}
	return 0
}

// regUMEM is UMEM_REG.
func (c *context) regUMEM(r *request) unix.Errno {
	u := &umem{addr: r.u64(0x1001), length: r.u64(0x1002)}
	rights := access(r.u32(0x1003))
	u.writable = rights&localWrite != 0
	switch {
	case !c.devx, u.length == 0, rights&^(localWrite|remoteRead|remoteWrite) != 0, rights&remoteWrite != 0 && !u.writable:
		return unix.EINVAL
	case c.mem.Read(u.addr, make([]byte, 1)) != nil || c.mem.Read(u.addr+u.length-1, make([]byte, 1)) != nil:
		return unix.EFAULT
	}
	u.number = c.device.number()
	r.made(0x1000, c.add(u))
	r.out32(0x1004, u.number)
	return 0
}

// find is the object of a kind that matches, if the context has one.
func find[T object](c *context, match func(T) bool) (found T, ok bool) {
	for _, o := range c.objects {
		if q, made := o.(devxQueue); made {
			o = q.object
		}
		if t, is := o.(T); is && match(t) {
			return t, true
		}
	}
	return found, false
}

// place is where n bytes at an offset of a umem are, which the device reads, and writes too if it is to.
func (c *context) place(number uint32, offset, n uint64, write bool) (u *umem, addr uint64, ok bool) {
	u, ok = find(c, func(u *umem) bool { return u.number == number })
	if !ok || offset > u.length || n > u.length-offset || write && !u.writable {
		return nil, 0, false
	}
	return u, u.addr + offset, true
}
