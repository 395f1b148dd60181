// SPDX-License-Identifier: Apache-2.0

// Package rxe is the user-space half of the kernel's Soft-RoCE driver: the queues that it shares
// with a process through mapped memory. A work queue is filled here and taken by the kernel after
// a doorbell; a completion queue is filled by the kernel and emptied here, without any call.
//
// The queues have one user on each side. Callers serialize access to a queue; the kernel's side
// is synchronized by the producer and consumer indices, which are read with acquire and written
// with release semantics (drivers/infiniband/sw/rxe/rxe_queue.h).
package rxe

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

const headerSize = unsafe.Sizeof(uapi.RxeQueueBuf{})

// ring is one mapped queue. It is no ring.Ring: its memory, the size of its elements and its indices are the
// kernel's, which works on them at the same time. The kernel masks the indices that it stores, and so does this side.
type ring struct {
	mem  []byte
	head *uapi.RxeQueueBuf
	// elements is the first element; each is size bytes.
	elements unsafe.Pointer
	size     uintptr
	mask     uint32
}

// mapRing maps the queue that a create call described. Each queue can be mapped once: the kernel
// forgets the offset with the first mmap. minElement is what the caller will access of an element.
func mapRing(fd int, mi uapi.RxeMminfo, minElement uintptr) (ring, error) {
	if uintptr(mi.Size) < headerSize {
		return ring{}, fmt.Errorf("rxe: kernel describes a queue of %d bytes", mi.Size)
	}
	mem, err := unix.Mmap(fd, int64(mi.Offset), int(mi.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return ring{}, fmt.Errorf("rxe: map queue of %d bytes: %w", mi.Size, err)
	}
	r := ring{mem: mem, head: (*uapi.RxeQueueBuf)(unsafe.Pointer(&mem[0]))}
	shift := r.head.Log2ElemSize
	r.size, r.mask = 1<<shift, r.head.IndexMask
	slots := uint64(r.mask) + 1
	if shift > 20 || r.size < minElement || slots&(slots-1) != 0 || uint64(headerSize)+slots<<shift > uint64(len(mem)) {
		_ = unix.Munmap(mem)
		return ring{}, fmt.Errorf("rxe: unknown queue layout: element size 2^%d, %d slots, %d bytes", shift, slots, mi.Size)
	}
	r.elements = unsafe.Pointer(&mem[headerSize])
	return r, nil
}

// unmap is idempotent. No other method may be called afterwards.
func (r *ring) unmap() error {
	if r.mem == nil {
		return nil
	}
	mem := r.mem
	*r = ring{}
	return unix.Munmap(mem)
}

func (r *ring) element(index uint32) unsafe.Pointer {
	return unsafe.Add(r.elements, uintptr(index&r.mask)*r.size)
}

func (r *ring) loadProducer() uint32   { return atomic.LoadUint32(&r.head.ProducerIndex) }
func (r *ring) loadConsumer() uint32   { return atomic.LoadUint32(&r.head.ConsumerIndex) }
func (r *ring) storeProducer(i uint32) { atomic.StoreUint32(&r.head.ProducerIndex, i&r.mask) }
func (r *ring) storeConsumer(i uint32) { atomic.StoreUint32(&r.head.ConsumerIndex, i&r.mask) }

// Capacity is the number of elements that the queue can hold: one slot always stays empty.
func (r *ring) Capacity() int { return int(r.mask) }
