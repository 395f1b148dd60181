// SPDX-License-Identifier: Apache-2.0

package mlx5

import "sync/atomic"

// CompletionSize is the size of a completion.
const CompletionSize = 64

// Opcodes of completions.
const (
	Done      = 0 // a send request
	RecvWrite = 1 // an RDMA write with immediate data arrived
	Recv      = 2
	RecvImm   = 3
	RecvInval = 4
	resized   = 5 // the queue goes on in other memory
	SendError = 13
	RecvError = 14
	invalid   = 15
)

// CompletionQueue is the user's side of a completion queue.
type CompletionQueue struct {
	mem    []byte
	mask   uint32
	shift  uint32 // of the number of entries
	number uint32
	record Record
	page   Page
	next   uint32 // consumer index
	told   uint32 // the consumer index that the device knows
	// events counts those that the program has fetched: a request for the next carries it.
	events atomic.Uint32
}

// NewCompletionQueue takes the queue's memory: a power of two of entries, 1 << shift.
func NewCompletionQueue(mem []byte, shift uint32, record Record, page Page) *CompletionQueue {
	PrepareCompletions(mem)
	return &CompletionQueue{mem: mem, mask: 1<<shift - 1, shift: shift, record: record, page: page}
}

// PrepareCompletions makes memory a queue without completions.
func PrepareCompletions(mem []byte) {
	for i := CompletionSize - 1; i < len(mem); i += CompletionSize {
		mem[i] = invalid<<4 | 1
	}
}

// Size is the number of entries.
func (q *CompletionQueue) Size() uint32 { return q.mask + 1 }

// Waiting is the number of completions that have not been read.
func (q *CompletionQueue) Waiting() (n uint32) {
	for n <= q.mask && q.ours(q.next+n) {
		n++
	}
	return n
}

// Move goes on in other memory, which the device knows already: the last completion in the old memory says so. Those before it come
// along, one place further than they were, because that one has a place, too (mlx5_cq_resize_copy_cqes). ok is false when the device
// has left no such completion.
func (q *CompletionQueue) Move(mem []byte, shift uint32) (ok bool) {
	to := CompletionQueue{mem: mem, mask: 1<<shift - 1, shift: shift}
	n := q.Waiting()
	for i := q.next; i != q.next+n && !ok; i++ {
		c := q.entry(i)
		if ok = c.Opcode() == resized; !ok {
			e := to.entry(i + 1)
			copy(e, c)
			e[63] = e[63]&^1 | uint8((i+1)>>shift&1)
		}
	}
	q.mem, q.mask, q.shift = to.mem, to.mask, to.shift
	q.next++
	q.Publish()
	return ok
}

// SetNumber tells the queue's number, which is known after it was made.
func (q *CompletionQueue) SetNumber(n uint32) { q.number = n }

// Completion is an entry.
type Completion []byte

func (q *CompletionQueue) entry(i uint32) Completion {
	at := i & q.mask * CompletionSize
	return q.mem[at : at+CompletionSize : at+CompletionSize]
}

// ours tells whether the device has written the entry of an index.
func (q *CompletionQueue) ours(i uint32) bool {
	last := swap32(load(word(q.entry(i), 60)))
	return last>>4&0xf != invalid && last&1 == i>>q.shift&1
}

// Next is the oldest completion, nil when there is none. It is valid until Publish.
func (q *CompletionQueue) Next() Completion {
	if !q.ours(q.next) {
		return nil
	}
	q.next++
	return q.entry(q.next - 1)
}

// Full tells whether the queue holds as many completions as it can: the next would be lost.
func (q *CompletionQueue) Full() bool { return q.ours(q.next + q.mask) }

// Publish gives what was read back to the device. full tells that the device had no room before, at the latest possible moment: the queue
// may have been filled while it was read.
func (q *CompletionQueue) Publish() (full bool) {
	store(word(q.record.mem, consumed), swap32(q.next&0xffffff))
	full = q.next-q.told > q.mask || q.ours(q.told+q.mask)
	q.told = q.next
	return full
}

// Arm asks for an event with the next completion, or with the next solicited one.
func (q *CompletionQueue) Arm(solicitedOnly bool) {
	const solicited = 1 << 24
	w := q.events.Load()&3<<28 | q.next&0xffffff
	if solicitedOnly {
		w |= solicited
	}
	ring(word(q.record.mem, armed), swap32(w), q.page.register(cqRegister), swap64(uint64(w)<<32|uint64(q.number)))
}

// EventFetched counts an event.
func (q *CompletionQueue) EventFetched() { q.events.Add(1) }

// Clean removes the completions of a user index, whose queue pair is gone or reset. drop is told of each. full is as of Publish.
func (q *CompletionQueue) Clean(user uint32, drop func(Completion)) (full bool) {
	end := q.next
	for end != q.next+q.mask+1 && q.ours(end) {
		end++
	}
	removed := uint32(0)
	for i := end; i != q.next; {
		i--
		c := q.entry(i)
		if c.User() == user {
			drop(c)
			removed++
			continue
		}
		if removed > 0 {
			// The owner bit stays that of the place.
			to := q.entry(i + removed)
			own := to[63] & 1
			copy(to, c)
			to[63] = to[63]&^1 | own
		}
	}
	if removed == 0 {
		return q.Full()
	}
	q.next += removed
	return q.Publish()
}

// Opcode is what the completion is of.
func (c Completion) Opcode() uint8 { return c[63] >> 4 }

// User is the index of the queue pair, as its maker chose it.
func (c Completion) User() uint32 { return be.Uint32(c[32:]) & 0xffffff }

// QPN is the number of the queue pair.
func (c Completion) QPN() uint32 { return be.Uint32(c[56:]) & 0xffffff }

// SendOpcode is that of the request, of Done and SendError.
func (c Completion) SendOpcode() uint8 { return c[56] }

// Counter is the request's first block, or the index in a shared receive queue.
func (c Completion) Counter() uint16 { return be.Uint16(c[60:]) }

// Bytes is the number of bytes received or read.
func (c Completion) Bytes() uint32 { return be.Uint32(c[44:]) }

// Imm is the immediate data, or the key that was invalidated.
func (c Completion) Imm() uint32 { return be.Uint32(c[36:]) }

// SrcQP is the number of the sender's queue pair; WithGRH tells of a datagram with its route header, SL its
// service level.
func (c Completion) SrcQP() uint32 { return be.Uint32(c[24:]) & 0xffffff }

// WithGRH tells whether the first 40 bytes of a datagram are its global route header.
func (c Completion) WithGRH() bool { return be.Uint32(c[24:])>>28&3 != 0 }

// SL is the service level.
func (c Completion) SL() uint8 { return c[24] & 0xf }

// Timestamp is the device's clock when it wrote the completion.
func (c Completion) Timestamp() uint64 { return be.Uint64(c[48:]) }

// Syndrome says what went wrong, Vendor what the firmware knows of it.
func (c Completion) Syndrome() uint8 { return c[55] }

// PageFault tells of a receive from a shared queue that found its memory paged out: it is unused, and the kernel fetches the memory
// (MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT).
func (c Completion) PageFault() bool {
	const aborted, pageFault = 0x22, 0x93
	return c.Opcode() == RecvError && c.Syndrome() == aborted && c.Vendor() == pageFault
}

// Vendor is the firmware's own code of an error.
func (c Completion) Vendor() uint8 { return c[54] }
