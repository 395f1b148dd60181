// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"unsafe"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// WorkQueue is a send queue, a receive queue or a shared receive queue. Elements are taken with
// NextSend or NextRecv, filled, and given to the kernel all at once by Publish.
type WorkQueue struct {
	ring
	producer uint32 // of elements taken
	consumer uint32 // as last seen; reading the kernel's cache line is dear
}

// MapSend maps a send queue, MapRecv a receive queue.
func MapSend(fd int, mi uapi.RxeMminfo) (WorkQueue, error) {
	return newWorkQueue(mapRing(fd, mi, unsafe.Sizeof(uapi.RxeSendWqe{})))
}

// MapRecv maps a receive queue or a shared receive queue.
func MapRecv(fd int, mi uapi.RxeMminfo) (WorkQueue, error) {
	return newWorkQueue(mapRing(fd, mi, unsafe.Sizeof(uapi.RxeRecvWqe{})))
}

func newWorkQueue(r ring, err error) (WorkQueue, error) {
	if err != nil {
		return WorkQueue{}, err
	}
	return WorkQueue{ring: r, producer: r.loadProducer(), consumer: r.loadConsumer()}, nil
}

// Unmap releases the mapping; it is idempotent.
func (q *WorkQueue) Unmap() error { return q.unmap() }

// full looks at the kernel's index only when the last known one leaves no room.
func (q *WorkQueue) full() bool {
	if (q.producer+1-q.consumer)&q.mask != 0 {
		return false
	}
	q.consumer = q.loadConsumer()
	return (q.producer+1-q.consumer)&q.mask == 0
}

// Free is the number of elements that can be taken now.
func (q *WorkQueue) Free() int {
	q.consumer = q.loadConsumer()
	return int((q.consumer - q.producer - 1) & q.mask)
}

// Room is how many of the next n elements can be taken now.
func (q *WorkQueue) Room(n int) int {
	free := (q.consumer - q.producer - 1) & q.mask
	if int(free) < n {
		free = uint32(q.Free())
	}
	return min(n, int(free))
}

// SendAt is the element i places after the last one taken; i is less than Room. It holds what was left
// in it: fill it with SetWrite and SetSGE, which leave nothing of that. Take takes it.
func (q *WorkQueue) SendAt(i int) *SendWQE {
	return (*SendWQE)(q.element(q.producer + uint32(i)))
}

// Take takes n elements that were filled in place.
func (q *WorkQueue) Take(n int) { q.producer = (q.producer + uint32(n)) & q.mask }

// Publish gives all elements taken so far to the kernel.
func (q *WorkQueue) Publish() { q.storeProducer(q.producer) }

// Reset drops all elements that the kernel has not taken, as a QP in state RESET must: the kernel
// clears them, but would take them for requests later.
func (q *WorkQueue) Reset() {
	if q.mem == nil {
		return
	}
	q.consumer = q.loadConsumer()
	q.producer = q.consumer
	q.Publish()
}

// SendWQE is a send request under construction, in the queue.
type SendWQE struct{ uapi.RxeSendWqe }

// NextSend takes an element, cleared; ok is false when the queue is full. The element has room for as
// many pieces, or as many inline bytes, as the queue was made for.
func (q *WorkQueue) NextSend() (w *SendWQE, ok bool) {
	if w = (*SendWQE)(q.next()); w == nil {
		return nil, false
	}
	*w = SendWQE{}
	return w, true
}

// next takes an element as it is, nil when the queue is full.
func (q *WorkQueue) next() unsafe.Pointer {
	if q.full() {
		return nil
	}
	e := q.element(q.producer)
	q.producer = (q.producer + 1) & q.mask
	return e
}

// SetRDMA fills the remote address of a write or read.
func (w *SendWQE) SetRDMA(addr uint64, rkey uint32) {
	v := (*uapi.RxeWrRdma)(unsafe.Pointer(&w.Wr))
	v.RemoteAddr, v.Rkey = addr, rkey
	w.Iova = addr
}

// SetWrite fills all of an element that a write's own fields and its SGE don't, so that it need not be
// cleared. The kernel reads no more than this of a write; what it keeps in the element must be zero.
func (w *SendWQE) SetWrite(addr uint64, rkey, ssn uint32) {
	w.SetRDMA(addr, rkey)
	w.Status, w.State = 0, 0
	w.Mask, w.FirstPsn, w.LastPsn, w.AckLength = 0, 0, 0, 0
	w.Ssn, w.HasRdAtomic = ssn, 0
}

// SetAtomic fills an atomic operation.
func (w *SendWQE) SetAtomic(addr uint64, rkey uint32, compareAdd, swap uint64) {
	v := (*uapi.RxeWrAtomic)(unsafe.Pointer(&w.Wr))
	v.RemoteAddr, v.Rkey, v.CompareAdd, v.Swap = addr, rkey, compareAdd, swap
	w.Iova = addr
}

// SetFlush fills a flush of so many bytes, or of the whole region. Linux 6.2 and later know it.
func (w *SendWQE) SetFlush(addr uint64, rkey, length uint32, placement uint8, region bool) {
	v := (*uapi.RxeWrFlush)(unsafe.Pointer(&w.Wr))
	v.RemoteAddr, v.Length, v.Rkey, v.Type = addr, length, rkey, placement
	if region {
		v.Level = uapi.IB_FLUSH_MR
	}
	w.Iova = addr
	w.Dma.Length, w.Dma.Resid = length, length
}

// SetAtomicWrite fills a write of 8 bytes at once. Linux 6.2 and later know it.
func (w *SendWQE) SetAtomicWrite(addr uint64, rkey uint32, value uint64) {
	w.SetRDMA(addr, rkey)
	w.SetInline((*[8]byte)(unsafe.Pointer(&value))[:])
}

// SetUD fills the destination of a datagram.
func (w *SendWQE) SetUD(ahNum, qpn, qkey uint32, pkeyIndex uint16) {
	v := (*uapi.RxeWrUD)(unsafe.Pointer(&w.Wr))
	v.AhNum, v.RemoteQpn, v.RemoteQkey, v.PkeyIndex = ahNum, qpn, qkey, pkeyIndex
}

// SetBind fills the binding of a memory window.
func (w *SendWQE) SetBind(addr, length uint64, mrLkey, mwRkey, newRkey, access uint32) {
	v := (*uapi.RxeWrMW)(unsafe.Pointer(&w.Wr))
	v.Addr, v.Length, v.MrLkey, v.MwRkey, v.Rkey, v.Access = addr, length, mrLkey, mwRkey, newRkey, access
}

// SetSGE makes a piece of local memory, not empty, the only one.
func (w *SendWQE) SetSGE(addr uint64, length, lkey uint32) {
	sge := (*uapi.RxeSge)(unsafe.Add(unsafe.Pointer(w), unsafe.Sizeof(*w)))
	sge.Addr, sge.Length, sge.Lkey = addr, length, lkey
	w.Dma.Length, w.Dma.Resid = length, length
	w.Dma.CurSge, w.Dma.NumSge, w.Dma.SgeOffset = 0, 1, 0
}

// SetInline copies data into the request. The caller has compared its length with the queue's limit.
func (w *SendWQE) SetInline(data []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(w), unsafe.Sizeof(*w))), len(data)), data)
	w.Dma.Length, w.Dma.Resid = uint32(len(data)), uint32(len(data))
}

// RecvWQE is a receive request under construction, in the queue.
type RecvWQE struct{ uapi.RxeRecvWqe }

// NextRecv takes an element, cleared; ok is false when the queue is full.
func (q *WorkQueue) NextRecv() (w *RecvWQE, ok bool) {
	if w = (*RecvWQE)(q.next()); w == nil {
		return nil, false
	}
	*w = RecvWQE{}
	return w, true
}

// AddSGE appends a piece of local memory to a send or a receive: it lies behind their rxe_dma_info. The caller has compared the number
// with the queue's limit.
func AddSGE(d *uapi.RxeDmaInfo, addr uint64, length, lkey uint32) {
	at := unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(*d)+uintptr(d.NumSge)*unsafe.Sizeof(uapi.RxeSge{}))
	sge := (*uapi.RxeSge)(at)
	sge.Addr, sge.Length, sge.Lkey = addr, length, lkey
	d.NumSge++
	d.Length += length
	d.Resid += length
}
