// SPDX-License-Identifier: Apache-2.0

package mlx5

import "sync/atomic"

// SendQueue is the send half of a queue pair.
type SendQueue struct {
	mem    []byte // blocks
	mask   uint32 // blocks - 1
	qpn    uint32
	record Record
	page   Page
	// toggle is which of the two registers is next: a BlueFlame page has a pair of buffers, of flame bytes each. Other pages have one
	// register and no buffer.
	toggle, flame int

	posted uint32 // blocks; only the lower 16 bits are the device's
	count  uint32 // requests
	// limit is the number of requests that may be posted and not completed.
	limit uint32
	// done is what posted and count were behind the last request that is known to be completed, in the upper
	// and in the lower half. Written by who polls.
	done atomic.Uint64
	// work are the requests that are posted, by their first block. Who polls reads what who posts has written: the device orders the
	// two, of which Go's memory model knows nothing, so that rung does it again.
	work []posting
	rung atomic.Uint32
	last uint32 // first block of the last request
	told uint32 // what count was when the device was last told
	// fence is what the next request waits for besides what it asks for itself: the change of a memory key (fm_cache of libmlx5).
	fence uint8
}

// posting is a request that was posted: its id, done when it is, and what it was if its opcode doesn't tell.
type posting struct {
	id, done uint64
	kind     Kind
}

// Kind tells requests of one opcode apart.
type Kind uint8

// Kinds of requests that change a memory key; Plain are all others.
const (
	Plain Kind = iota
	Binding
	Invalidation
)

// NewSendQueue takes the queue's memory, a power of two of blocks, for up to limit requests at a time. flame is the size of the page's
// BlueFlame buffers, 0 when it has none.
func NewSendQueue(mem []byte, limit int, record Record, page Page, flame int) *SendQueue {
	blocks := len(mem) / BlockSize
	return &SendQueue{mem: mem, mask: uint32(blocks - 1), limit: uint32(limit), record: record, page: page, flame: flame, work: make([]posting, blocks)}
}

// SetQPN tells the number of the queue pair, which is known after it was made.
func (q *SendQueue) SetQPN(qpn uint32) { q.qpn = qpn }

// Holds tells whether a request of so many segments fits into the queue when that is empty.
func (q *SendQueue) Holds(segments int) bool { return q.mask+1 >= blocks(segments) }

// HasRoom tells whether a request of so many segments can be posted.
func (q *SendQueue) HasRoom(segments int) bool {
	done := q.done.Load()
	return q.count-uint32(done) < q.limit && q.mask+1-(q.posted-uint32(done>>32)) >= blocks(segments)
}

// blocks is how many blocks so many segments take.
func blocks(segments int) uint32 { return uint32(segments*segment+BlockSize-1) / BlockSize }

// Reset empties the queue of a QP that is in state RESET.
func (q *SendQueue) Reset() {
	q.posted, q.count, q.told, q.toggle, q.fence = 0, 0, 0, 0, 0
	q.done.Store(0)
	store(word(q.record.mem, sendCounter), 0)
}

// Complete frees the requests up to the one at a block, and returns that one's id and kind.
func (q *SendQueue) Complete(counter uint16) (id uint64, kind Kind) {
	q.rung.Load()
	w := &q.work[uint32(counter)&q.mask]
	id, kind = w.id, w.kind
	q.done.Store(w.done) // from here on the place may be taken
	return id, kind
}

// Request is a send request under construction in its queue. Segments are added in the order of the layout:
// the address, then the data.
type Request struct {
	q    *SendQueue
	size int // segments so far
	kind Kind
}

// Begin begins a request, for which there must be room.
func (q *SendQueue) Begin() Request { return Request{q: q, size: 1} }

// next is the place of the next segment. A queue is whole blocks, so that a segment never wraps.
func (r *Request) next() []byte {
	r.size++
	return r.at(r.size - 1)
}

// at is the segment of that number.
func (r *Request) at(i int) []byte {
	off := (r.q.posted&r.q.mask)*BlockSize + uint32(i)*segment
	off &= (r.q.mask+1)*BlockSize - 1
	return r.q.mem[off : off+segment : off+segment]
}

// RDMA adds the remote address of a write, a read or an atomic operation.
func (r *Request) RDMA(addr uint64, rkey uint32) {
	s := r.next()
	be.PutUint64(s, addr)
	be.PutUint32(s[8:], rkey)
	be.PutUint32(s[12:], 0)
}

// CompareSwap adds the operands of that operation.
func (r *Request) CompareSwap(swap, compare uint64) {
	s := r.next()
	be.PutUint64(s, swap)
	be.PutUint64(s[8:], compare)
}

// FetchAdd adds the operand of that operation. The device doesn't look at the other half.
func (r *Request) FetchAdd(add uint64) { be.PutUint64(r.next(), add) }

// AddressVector is struct mlx5_wqe_av without the queue's key and number.
type AddressVector struct {
	SLRate       uint8
	UDPPort      uint16 // in the place of the LID
	MAC          [6]byte
	TrafficClass uint8
	HopLimit     uint8
	GIDIndex     uint8
	FlowLabel    uint32
	GID          [16]byte
}

// extendedUD says that the address vector has its full size (MLX5_EXTENDED_UD_AV).
const extendedUD = 1 << 31

// Datagram adds where a datagram goes.
func (r *Request) Datagram(a *AddressVector, qpn, qkey uint32) {
	s := r.next()
	be.PutUint32(s, qkey)
	be.PutUint32(s[4:], 0)
	be.PutUint32(s[8:], extendedUD|qpn)
	s[12], s[13] = a.SLRate, 0
	be.PutUint16(s[14:], a.UDPPort)
	s = r.next()
	be.PutUint32(s, 0)
	copy(s[4:10], a.MAC[:])
	s[10], s[11] = a.TrafficClass, a.HopLimit
	be.PutUint32(s[12:], uint32(a.GIDIndex)<<20|a.FlowLabel&0xfffff)
	copy(r.next(), a.GID[:])
}

// Data adds a piece of memory, not empty.
func (r *Request) Data(addr uint64, length, lkey uint32) { putData(r.next(), addr, length, lkey) }

func putData(s []byte, addr uint64, length, lkey uint32) {
	be.PutUint32(s, length)
	be.PutUint32(s[4:], lkey)
	be.PutUint64(s[8:], addr)
}

// Inline adds the data itself, not empty. What is left of its last segment keeps its old bytes.
func (r *Request) Inline(data []byte) {
	const inline = 1 << 31
	s := r.next()
	be.PutUint32(s, inline|uint32(len(data)))
	data = data[copy(s[4:], data):]
	for len(data) > 0 {
		data = data[copy(r.next(), data):]
	}
}

// InlineSegments is the number of segments of n bytes of inline data.
func InlineSegments(n int) int { return (4 + n + segment - 1) / segment }

// End completes the request: its control segment is written, and the next one begins behind it.
func (r *Request) End(id uint64, opcode, flags uint8, imm uint32) {
	q := r.q
	at := q.posted & q.mask
	s := q.mem[at*BlockSize : at*BlockSize+segment]
	be.PutUint32(s, q.posted&0xffff<<8|uint32(opcode))
	be.PutUint32(s[4:], q.qpn<<8|uint32(r.size))
	if flags&Fence == 0 {
		flags |= q.fence
	}
	q.fence = 0
	if opcode == OpUMR {
		q.fence = smallFence
	}
	be.PutUint32(s[8:], uint32(flags))
	be.PutUint32(s[12:], imm)
	q.last = at
	q.posted += blocks(r.size)
	q.count++
	q.work[at] = posting{id: id, done: uint64(q.posted)<<32 | uint64(q.count), kind: r.kind}
}

// Ring tells the device of the requests that have been ended. One alone goes to the device as a whole, when its page takes it: the
// device decides whether it looks at that or at memory.
func (q *SendQueue) Ring() {
	q.rung.Store(q.posted)
	control := q.mem[q.last*BlockSize:]
	segments := int(be.Uint32(control[4:]) & 0x3f)
	if q.count-q.told == 1 && segments > 1 && segments*segment <= q.flame {
		q.burn(int(blocks(segments)))
	} else {
		ring(word(q.record.mem, sendCounter), swap32(q.posted&0xffff), q.page.register(sendRegister+q.toggle), swap64(be.Uint64(control)))
	}
	q.told = q.count
	q.toggle ^= q.flame
}

// burn copies the last request, of n blocks, into a BlueFlame buffer (mlx5_bf_copy).
func (q *SendQueue) burn(n int) {
	announce(word(q.record.mem, sendCounter), swap32(q.posted&0xffff))
	for i := range uint32(n) {
		from := (q.last + i) & q.mask * BlockSize
		copyBlock(q.page.buffer(sendRegister+q.toggle+int(i)*BlockSize), (*[BlockSize]byte)(q.mem[from:from+BlockSize]))
	}
	flush()
}
