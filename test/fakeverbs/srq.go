// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// sharedQueue is an SRQ: a list of receive requests, linked by their indices.
type sharedQueue struct {
	ctx         *context
	number      uint32
	userHandle  uint64
	pd          *pd
	buf, record uint64
	entries     uint32
	stride      uint32
	users       int
	limit       uint32

	// head is the index of the request to take next, taken counts them.
	head  uint16
	taken uint16
}

// createSRQ: the kernel derives the queue's size from max_wr and the stride from max_sge, as the library does.
func (c *context) createSRQ(r *request) unix.Errno {
	const basic = 0
	p, e := get[*pd](c, r.handle(1))
	if e != 0 {
		return e
	}
	hw := r.in(uhwIn, 32)
	maxWR, maxSGEs := r.u32(5), r.u32(6)
	if r.u64(9) != basic || maxWR == 0 || maxWR >= maxQPWR || maxSGEs > maxSGE || le.Uint32(hw[16:]) != 0 {
		return unix.EINVAL
	}
	q := &sharedQueue{ctx: c, userHandle: r.u64(4), pd: p, buf: le.Uint64(hw), record: le.Uint64(hw[8:]),
		entries: powerOfTwo(maxWR + 1), stride: max(32, powerOfTwo(16+16*maxSGEs)), limit: r.u32(7)}
	if q.record%8 != 0 || c.mem.Read(q.buf, make([]byte, 1)) != nil || c.mem.Read(q.buf+uint64(q.entries*q.stride)-1, make([]byte, 1)) != nil {
		return unix.EFAULT
	}
	q.number = c.device.number()
	p.users++
	r.made(0, c.add(q))
	r.out32(11, q.entries-1)
	r.out32(12, q.stride/16-1)
	r.out32(13, q.number)
	r.out64(uhwOut, uint64(q.number))
	return 0
}

func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(n-1) }

func (q *sharedQueue) destroy(*Device) unix.Errno {
	if q.users > 0 {
		return unix.EBUSY
	}
	q.pd.users--
	return 0
}

func (c *context) destroySRQ(r *request) unix.Errno {
	e := remove[*sharedQueue](c, r.handle(0))
	r.out32(1, 0)
	return e
}

func (c *context) modifySRQ(r *request) unix.Errno {
	const limit = 2
	in := r.in(coreIn, 16)
	q, e := get[*sharedQueue](c, le.Uint32(in))
	if e != 0 {
		return e
	}
	if le.Uint32(in[4:]) != limit || le.Uint32(in[12:]) >= q.entries {
		return unix.EINVAL
	}
	q.limit = le.Uint32(in[12:])
	return 0
}

func (c *context) querySRQ(r *request) unix.Errno {
	q, e := get[*sharedQueue](c, le.Uint32(r.in(coreIn, 16)[8:]))
	if e != 0 {
		return e
	}
	b := le.AppendUint32(nil, q.entries-1)
	b = le.AppendUint32(b, q.stride/16-1)
	b = le.AppendUint32(b, q.limit)
	r.out(coreOut, append(b, 0, 0, 0, 0))
	return 0
}

// posted is the number of requests that the program has posted and the device not taken.
func (q *sharedQueue) posted() uint16 {
	var b [4]byte
	if q.ctx.mem.Read(q.record, b[:]) != nil {
		return 0
	}
	return uint16(be.Uint32(b[:])) - q.taken
}

// take takes the next request: its number for the completion, and its memory.
func (q *sharedQueue) take() (index uint16, wqe []byte, ok bool) {
	n := q.posted()
	if n == 0 {
		return 0, nil, false
	}
	wqe = make([]byte, q.stride)
	index = q.head
	if q.ctx.mem.Read(q.buf+uint64(uint32(index)&(q.entries-1))*uint64(q.stride), wqe) != nil {
		return 0, nil, false
	}
	q.head = be.Uint16(wqe[2:])
	q.taken++
	if q.limit > 0 && uint32(n-1) < q.limit {
		q.limit = 0
		q.ctx.event(q.userHandle, eventSRQLimit)
	}
	return index, wqe[16:], true
}
