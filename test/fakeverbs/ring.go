// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

// ring is a queue of rxe in the device file (struct rxe_queue_buf): its head, and entries of which one stays empty. Each side has an
// index of its own, which the other only reads.
type ring struct {
	ctx                  *context
	file                 *usernotif.Shared
	off, size            int
	mask, stride, length uint32
}

// Offsets in a ring.
const ringShift, ringMask, ringProducer, ringConsumer, ringHead = 0, 4, 128, 256, 384

// newRing makes a ring for n entries of at least so many bytes.
func (c *context) newRing(n, entry uint32) (*ring, unix.Errno) {
	const cacheLine = 64
	r := &ring{ctx: c, file: c.file, mask: powerOfTwo(n+1) - 1, stride: max(powerOfTwo(entry), cacheLine)}
	r.length = ringHead + (r.mask+1)*r.stride
	r.size = (int(r.length) + PageSize - 1) &^ (PageSize - 1)
	if free := c.freed[r.size]; len(free) > 0 {
		r.off, c.freed[r.size] = free[len(free)-1], free[:len(free)-1]
		clear(c.file.Bytes(r.off, r.size))
	} else {
		r.off = c.rings + PageSize
		if r.off+r.size > ringSpace {
			return nil, unix.ENOMEM
		}
		c.rings += r.size
	}
	shift := uint32(0)
	for 1<<shift < r.stride {
		shift++
	}
	r.file.Store32(r.off+ringShift, shift)
	r.file.Store32(r.off+ringMask, r.mask)
	return r, 0
}

// free gives the ring's place back; no ring has none.
func (r *ring) free() {
	if r != nil {
		r.ctx.freed[r.size] = append(r.ctx.freed[r.size], r.off)
	}
}

// info is struct mminfo.
func (r *ring) info() []byte {
	return le.AppendUint64(le.AppendUint64(nil, uint64(r.off)), uint64(r.length))
}

// entry is the memory of an entry, whose index may go on past the end.
func (r *ring) entry(index uint32) []byte {
	return r.file.Bytes(r.off+ringHead+int((index&r.mask)*r.stride), int(r.stride))
}

func (r *ring) produced() uint32     { return r.file.Load32(r.off + ringProducer) }
func (r *ring) consumed() uint32     { return r.file.Load32(r.off + ringConsumer) }
func (r *ring) produce(index uint32) { r.file.Store32(r.off+ringProducer, index&r.mask) }
func (r *ring) consume(index uint32) { r.file.Store32(r.off+ringConsumer, index&r.mask) }
