// SPDX-License-Identifier: Apache-2.0

package mlx5

import "sync/atomic"

// RecvQueue is the receive half of a queue pair.
type RecvQueue struct {
	mem    []byte
	mask   uint32
	stride uint32
	limit  uint32 // of requests posted and not completed
	record Record
	head   uint32
	tail   atomic.Uint32 // written by who polls
	ids    []uint64
	// published orders the writing and reading of ids, as SendQueue.rung does.
	published atomic.Uint32
}

// NewRecvQueue takes the queue's memory: a power of two of requests, each of stride bytes, of which limit may be posted at a time.
func NewRecvQueue(mem []byte, stride, limit int, record Record) *RecvQueue {
	n := len(mem) / stride
	return &RecvQueue{mem: mem, mask: uint32(n - 1), stride: uint32(stride), limit: uint32(limit), record: record, ids: make([]uint64, n)}
}

// Room is the number of requests that can be posted.
func (q *RecvQueue) Room() int { return int(q.limit) - int(q.head-q.tail.Load()) }

// Reset empties the queue of a QP that is in state RESET.
func (q *RecvQueue) Reset() {
	q.head = 0
	q.tail.Store(0)
	store(word(q.record.mem, recvCounter), 0)
}

// Complete frees the oldest request and returns its id.
func (q *RecvQueue) Complete() uint64 { return q.complete(q.tail.Load()) }

// CompleteAt frees the request of that counter, of a queue whose requests are taken out of order, and returns its id.
func (q *RecvQueue) CompleteAt(counter uint16) uint64 { return q.complete(uint32(counter)) }

func (q *RecvQueue) complete(at uint32) uint64 {
	q.published.Load()
	id := q.ids[at&q.mask]
	q.tail.Add(1) // from here on the place may be taken
	return id
}

// Scatter is a receive request's list of memory, under construction.
type Scatter struct{ left []byte }

// Begin begins a request, for which Room must have been found.
func (q *RecvQueue) Begin(id uint64) Scatter {
	at := q.head & q.mask
	q.ids[at] = id
	q.head++
	return Scatter{q.mem[at*q.stride : (at+1)*q.stride]}
}

// Data adds a piece of memory, not empty. There is room for as many as the stride has segments.
func (s *Scatter) Data(addr uint64, length, lkey uint32) {
	putData(s.left, addr, length, lkey)
	s.left = s.left[segment:]
}

// End ends the list.
func (s *Scatter) End() {
	if len(s.left) > 0 {
		putData(s.left, 0, 0, invalidLKey)
	}
}

// Publish tells the device of the requests that have been ended.
func (q *RecvQueue) Publish() {
	q.published.Store(q.head)
	store(word(q.record.mem, recvCounter), swap32(q.head&0xffff))
}

// SharedQueue is a shared receive queue: its requests are a list, linked by their indices.
type SharedQueue struct {
	mem        []byte
	stride     uint32
	record     Record
	head, tail uint16
	free       int
	posted     uint16
	ids        []uint64
}

// NewSharedQueue takes the queue's memory, a power of two of requests; one stays free.
func NewSharedQueue(mem []byte, stride int, record Record) *SharedQueue {
	n := len(mem) / stride
	q := &SharedQueue{mem: mem, stride: uint32(stride), record: record, tail: uint16(n - 1), free: n - 1, ids: make([]uint64, n)}
	for i := range n {
		be.PutUint16(q.at(uint16(i))[2:], uint16((i+1)&(n-1)))
	}
	return q
}

func (q *SharedQueue) at(i uint16) []byte {
	return q.mem[uint32(i)*q.stride : (uint32(i)+1)*q.stride]
}

// Room is the number of requests that can be posted.
func (q *SharedQueue) Room() int { return q.free }

// Complete frees a request and returns its id.
func (q *SharedQueue) Complete(index uint16) uint64 {
	if int(index) >= len(q.ids) {
		return 0
	}
	be.PutUint16(q.at(q.tail)[2:], index)
	q.tail = index
	q.free++
	return q.ids[index]
}

// Repost posts a request that the device has given back unused a second time, in another place: the kernel still reads this one, which is
// the last to be taken again.
func (q *SharedQueue) Repost(index uint16) {
	if int(index) >= len(q.ids) {
		return
	}
	s := q.Begin(q.Complete(index))
	copy(s.left, q.at(index)[segment:])
	q.Publish()
}

// Begin begins a request, for which Room must have been found.
func (q *SharedQueue) Begin(id uint64) Scatter {
	w := q.at(q.head)
	q.ids[q.head] = id
	q.head = be.Uint16(w[2:])
	q.free--
	q.posted++
	return Scatter{w[segment:]}
}

// Publish tells the device of the requests that have been ended.
func (q *SharedQueue) Publish() { store(word(q.record.mem, recvCounter), swap32(uint32(q.posted))) }
