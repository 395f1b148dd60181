// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// cqeResize is the last completion in memory that a CQ leaves.
const cqeResize = 5

// resizeCQ is RESIZE_CQ (mlx5_ib_resize_cq): the device writes a last completion to the old memory and goes on in the new, behind the
// places of what has not been read, which the program copies.
func (c *context) resizeCQ(r *request) unix.Errno {
	in, hw := r.in(coreIn, 16), r.in(uhwIn, 16)
	q, e := get[*completionQueue](c, le.Uint32(in[8:]))
	if e != 0 {
		return e
	}
	cqe := le.Uint32(in[12:])
	to := completionQueue{ctx: c, buf: le.Uint64(hw), entrySize: uint32(le.Uint16(hw[8:])), entries: cqe + 1}
	switch {
	case cqe > maxCQE, to.entries&cqe != 0, to.entries < minCQEntries, to.entrySize != q.entrySize, to.buf%uint64(q.entrySize) != 0:
		return unix.EINVAL
	}
	if e := to.checkMemory(); e != 0 {
		return e
	}
	mlx5{}.consume(q)
	if waiting := q.produced + 1 - q.consumed; waiting > q.entries || waiting > to.entries {
		return unix.EINVAL
	}
	c.device.complete(q, completion{kind: cqeResize})
	q.buf, q.entries = to.buf, to.entries
	r.out64(coreOut, uint64(cqe))
	return 0
}
