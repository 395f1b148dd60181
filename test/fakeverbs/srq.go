// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// sharedQueue is an SRQ.
type sharedQueue struct {
	ctx        *context
	number     uint32
	userHandle uint64
	pd         *pd
	wr, sge    uint32 // of the program's requests, at most
	users      int
	limit      uint32
	// Of rxe.
	ring *ring
	// Of mlx5: a list of requests, linked by their indices.
	buf, record uint64
	entries     uint32
	stride      uint32
	// head is the index of the request to take next, taken counts them.
	head  uint16
	taken uint16
}

func (c *context) createSRQ(r *request) unix.Errno {
	const basic = 0
	p, e := get[*pd](c, r.handle(1))
	if e != 0 {
		return e
	}
	q := &sharedQueue{ctx: c, userHandle: r.u64(4), pd: p, number: c.device.number(), wr: r.u32(5), sge: r.u32(6), limit: r.u32(7)}
	if r.u64(9) != basic || q.wr == 0 || q.wr >= maxQPWR || q.sge > maxSRQSGE {
		return unix.EINVAL
	}
	if e := c.device.driver.srq(q, r); e != 0 {
		return e
	}
	p.users++
	r.made(0, c.add(q))
	r.out32(11, q.wr)
	r.out32(12, q.sge)
	r.out32(13, q.number)
	return 0
}

// srq: the kernel derives the queue's size from max_wr and the stride from max_sge, as the library does.
func (mlx5) srq(q *sharedQueue, r *request) unix.Errno {
	c, hw := q.ctx, r.in(uhwIn, 32)
	if le.Uint32(hw[16:]) != 0 {
		return unix.EINVAL
	}
	q.buf, q.record = le.Uint64(hw), le.Uint64(hw[8:])
	q.limit = 0 // mlx5_ib_create_srq doesn't look at it
	q.entries, q.stride = powerOfTwo(q.wr+1), max(32, powerOfTwo(16+16*q.sge))
	q.wr, q.sge = q.entries-1, q.stride/16-1
	if q.record%8 != 0 || c.mem.Read(q.buf, make([]byte, 1)) != nil || c.mem.Read(q.buf+uint64(q.entries*q.stride)-1, make([]byte, 1)) != nil {
		return unix.EFAULT
	}
	r.out64(uhwOut, uint64(q.number))
	return 0
}

func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(n-1) }

func (q *sharedQueue) destroy(*Device) unix.Errno {
	if q.users > 0 {
		return unix.EBUSY
	}
	q.pd.users--
	q.ring.free()
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
	if le.Uint32(in[4:]) != limit || le.Uint32(in[12:]) > q.wr {
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
	b := le.AppendUint32(nil, q.wr)
	b = le.AppendUint32(b, q.sge)
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
func (q *sharedQueue) take() (id uint64, wqe []byte, ok bool) {
	n := q.posted()
	if n == 0 {
		return 0, nil, false
	}
	wqe = make([]byte, q.stride)
	index := q.head
	if q.ctx.mem.Read(q.buf+uint64(uint32(index)&(q.entries-1))*uint64(q.stride), wqe) != nil {
		return 0, nil, false
	}
	q.head = be.Uint16(wqe[2:])
	q.taken++
	q.left(uint32(n - 1))
	return uint64(index), wqe[16:], true
}

// left sends the event of a limit when fewer requests are left.
func (q *sharedQueue) left(n uint32) {
	if q.limit > 0 && n < q.limit {
		q.limit = 0
		q.ctx.event(q.userHandle, eventSRQLimit)
	}
}
