// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// completionQueue is a CQ.
type completionQueue struct {
	ctx        *context
	number     uint32
	userHandle uint64
	channel    *channel
	entries    uint32
	users      int

	// Of mlx5, in the program's memory: entries is a power of two.
	uar         *uar
	buf, record uint64
	entrySize   uint32 // 64 or 128
	// Of rxe.
	ring *ring

	// produced counts the completions written, consumed what the program's record last said.
	produced, consumed uint32
	overrun            bool
	ignoreOverrun      bool
	byCommand          bool // made by a firmware command: the kernel tells nobody of its events
	armed              armState
	armedFrom          uint32 // the consumer index of the request
	// An event waits until there are moderateCount completions, or moderatePeriod has passed since the first; waiting is since when.
	moderateCount  uint32
	moderatePeriod time.Duration
	waiting        time.Time
	// events counts the notifications sent: a request carries their number's two low bits.
	events uint32
	// solicitedSince tells that a completion after armedFrom was solicited, or an error.
	solicited uint32 // one past the last such completion
}

type armState uint8

const (
	notArmed armState = iota
	armedSolicited
	armedAny
)

// Flags of struct mlx5_ib_create_cq.
const (
	cqPad128   = 1 << 0
	cqUARIndex = 1 << 1

	// Of CREATE_CQ. Completions always have a place for a timestamp.
	cqTimestamps    = 1 << 0
	cqIgnoreOverrun = 1 << 1
	minCQEntries    = 2
)

func (c *context) createCQ(r *request) unix.Errno {
	cqe := r.u32(1)
	q := &completionQueue{ctx: c, userHandle: r.u64(2), entries: cqe + 1, number: c.device.number()}
	if r.u32(4) >= compVectors || cqe == 0 || cqe > maxCQE {
		return unix.EINVAL
	}
	if a := r.find(3); a != nil {
		if q.channel = c.channel(r, uint32(a.data)); q.channel == nil {
			return unix.EBADF
		}
	}
	if e := c.device.driver.cq(q, r); e != 0 {
		return e
	}
	if q.channel != nil {
		q.channel.users++
	}
	r.made(0, c.add(q))
	r.out32(6, cqe)
	return 0
}

func (mlx5) cq(q *completionQueue, r *request) unix.Errno {
	c, hw := q.ctx, r.in(uhwIn, 32)
	q.buf, q.record, q.entrySize = le.Uint64(hw), le.Uint64(hw[8:]), le.Uint32(hw[16:])
	q.ignoreOverrun = r.u32(5)&cqIgnoreOverrun != 0
	flags, page := le.Uint16(hw[22:]), uint32(le.Uint16(hw[24:]))
	switch {
	case r.u32(5)&^(cqIgnoreOverrun|cqTimestamps) != 0, q.entries&(q.entries-1) != 0, q.entries < minCQEntries:
		return unix.EINVAL
	case q.entrySize != 64 && q.entrySize != 128, hw[20] != 0:
		return unix.EINVAL
	case flags&^(cqPad128|cqUARIndex) != 0, flags&cqUARIndex == 0, flags&cqPad128 != 0 && q.entrySize != 128:
		return unix.EINVAL
	case q.buf%uint64(q.entrySize) != 0 || q.record%8 != 0:
		return unix.EINVAL
	}
	if q.uar = c.uars[page]; q.uar == nil {
		return unix.EINVAL
	}
	if e := q.checkMemory(); e != 0 {
		return e
	}
	if c.mem.Read(q.record, make([]byte, 8)) != nil {
		return unix.EFAULT
	}
	q.uar.users++
	r.out64(uhwOut, uint64(q.number))
	return 0
}

// checkMemory looks whether what the kernel would pin is there, and no entry looks like a completion.
func (q *completionQueue) checkMemory() unix.Errno {
	const atOnce = 1 << 10
	b := make([]byte, atOnce*q.entrySize)
	for i := uint32(0); i < q.entries; i += atOnce {
		part := b[:min(atOnce, q.entries-i)*q.entrySize]
		if q.ctx.mem.Read(q.buf+uint64(i)*uint64(q.entrySize), part) != nil {
			return unix.EFAULT
		}
		for j := q.entrySize - 1; int(j) < len(part); j += q.entrySize {
			if part[j]>>4 != cqeInvalid {
				q.ctx.device.violation("CQ of %d entries: one is %#x when the CQ is made, not invalid", q.entries, part[j])
				return 0
			}
		}
	}
	return 0
}

func (q *completionQueue) destroy(*Device) unix.Errno {
	if q.users > 0 {
		return unix.EBUSY
	}
	if q.uar != nil {
		q.uar.users--
	}
	q.ring.free()
	if q.channel != nil {
		q.channel.users--
	}
	q.armed, q.waiting = notArmed, time.Time{}
	return 0
}

func (c *context) destroyCQ(r *request) unix.Errno {
	q, e := get[*completionQueue](c, r.handle(0))
	if e != 0 {
		return e
	}
	if e := remove[*completionQueue](c, r.handle(0)); e != 0 {
		return e
	}
	// The program waits until it has acknowledged as many events as the kernel says it has read.
	var read uint32
	if q.channel != nil {
		read = q.events - uint32(q.channel.pipe.takeBack(func(b []byte) bool { return le.Uint64(b) == q.userHandle }))
	}
	r.out(1, le.AppendUint32(le.AppendUint32(nil, read), 0))
	return 0
}

// at is where the 64 bytes of an entry are that both sizes have.
func (q *completionQueue) at(index uint32) uint64 {
	return q.buf + uint64(index&(q.entries-1))*uint64(q.entrySize) + uint64(q.entrySize) - 64
}

// Opcodes of completions, the upper half of the last byte.
const (
	cqeRequest      = 0
	cqeRecvWrite    = 1
	cqeRecv         = 2
	cqeRecvImm      = 3
	cqeRecvInval    = 4
	cqeReqError     = 13
	cqeRespError    = 14
	cqeInvalid      = 15
	inlineScatter32 = 1 << 2
	inlineScatter64 = 1 << 3
)

// completion is one before a driver has written it, in the engine's form, which is mlx5's.
type completion struct {
	q    *queuePair // nil of a resize
	kind byte       // cqeRequest …
	// id is that of the request.
	id       uint64
	opcode   byte // of the request, of a send queue
	syndrome verdict
	vendor   byte // of an error; 0 stands for vendorSyndrome
	// bytes are those of the message, srcQP and imm what it said.
	bytes, srcQP, imm uint32
	grh, solicited    bool
	// data, if any, goes before the completion's fields (scatter to CQE).
	data []byte
}

// complete brings a completion into its queue.
func (d *Device) complete(q *completionQueue, c completion) {
	if q.overrun {
		return
	}
	if q.produced-q.consumed >= q.entries && !q.ignoreOverrun {
		d.driver.consume(q)
		if q.produced-q.consumed >= q.entries {
			q.overrun = true
			if !q.byCommand {
				q.ctx.event(q.userHandle, eventCQError)
			}
			return
		}
	}
	if !d.driver.write(q, &c) {
		d.memoryGone(q.ctx, "CQ %#x: its memory is gone", q.number)
	}
	q.produced++
	d.stats.Completions++
	if c.solicited {
		q.solicited = q.produced
	}
	q.notify()
}

// vendorSyndrome is some code of the device, vendorPageFault that of a receive whose memory is absent (MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT).
const (
	vendorSyndrome  = 0x68
	vendorPageFault = 0x93
)

// write writes to the program's memory.
func (mlx5) write(q *completionQueue, c *completion) bool {
	var cqe [64]byte
	if c.q != nil {
		be.PutUint32(cqe[32:], c.q.userIndex)
		be.PutUint32(cqe[56:], c.q.number)
	}
	be.PutUint32(cqe[36:], c.imm)
	be.PutUint32(cqe[24:], c.srcQP)
	if c.grh {
		cqe[24] |= 1 << 4
	}
	be.PutUint32(cqe[44:], c.bytes)
	if c.kind == cqeReqError || c.kind == cqeRespError {
		cqe[54], cqe[55] = cmp.Or(c.vendor, vendorSyndrome), byte(c.syndrome)
	} else {
		be.PutUint64(cqe[48:], uint64(time.Now().UnixNano()))
	}
	cqe[56] = c.opcode
	be.PutUint16(cqe[60:], uint16(c.id))
	own := c.kind<<4 | byte(q.produced/q.entries&1)
	at := q.at(q.produced)
	switch {
	case len(c.data) > 32:
		_ = q.ctx.mem.Write(at-64, c.data)
		own |= inlineScatter64
	case len(c.data) > 0:
		copy(cqe[:32], c.data)
		own |= inlineScatter32
	}
	// The byte that gives the entry away goes last.
	return q.ctx.mem.Write(at, cqe[:63]) == nil && q.ctx.mem.Write(at+63, []byte{own}) == nil
}

func (mlx5) consume(q *completionQueue) {
	var b [4]byte
	if q.ctx.mem.Read(q.record, b[:]) == nil {
		// The record has 24 bits.
		q.consumed += (be.Uint32(b[:]) - q.consumed) & 0xffffff
	}
}

// notify sends the event of an armed CQ when there is a completion for it.
func (q *completionQueue) notify() {
	have := q.produced
	if q.armed == armedSolicited {
		have = q.solicited
	}
	if q.armed == notArmed || int32(have-q.armedFrom) <= 0 || q.moderated(have-q.armedFrom) {
		return
	}
	q.armed, q.waiting = notArmed, time.Time{}
	q.events++
	if q.channel != nil {
		q.channel.pipe.send(le.AppendUint64(nil, q.userHandle))
	}
}

// moderated tells whether an event for so many completions is to wait.
func (q *completionQueue) moderated(n uint32) bool {
	if n >= q.moderateCount {
		return false
	}
	if q.waiting.IsZero() {
		q.waiting = time.Now()
		q.ctx.device.moderated = append(q.ctx.device.moderated, q)
	}
	return time.Since(q.waiting) < q.moderatePeriod
}

// announce sends the events whose time has come.
func (d *Device) announce() {
	if len(d.moderated) == 0 {
		return
	}
	for _, q := range d.moderated {
		q.notify()
	}
	d.moderated = slices.DeleteFunc(d.moderated, func(q *completionQueue) bool { return q.waiting.IsZero() })
}

func (c *context) modifyCQ(r *request) unix.Errno {
	const moderate = 1
	in := r.in(coreIn, 16)
	q, e := get[*completionQueue](c, le.Uint32(in))
	if e != 0 {
		return e
	}
	if le.Uint32(in[4:]) != moderate || le.Uint16(in[10:]) > maxModerationPeriod {
		return unix.EINVAL
	}
	q.moderateCount, q.moderatePeriod = uint32(le.Uint16(in[8:])), time.Duration(le.Uint16(in[10:]))*time.Microsecond
	return 0
}

// arm is the doorbell by which a program asks for an event: sn<<28 | solicited<<24 | ci, and the number.
func (d *Device) arm(q *completionQueue, word uint32) {
	const solicited = 1 << 24
	var b [4]byte
	// The record may be that of a later request already, of which the doorbell comes after this one.
	if q.ctx.mem.Read(q.record+4, b[:]) == nil && int32(be.Uint32(b[:])<<8-word<<8) < 0 {
		d.violation("CQ %#x: armed with %#x, but its record says %#x", q.number, word, be.Uint32(b[:]))
	}
	if word>>28&3 != q.events&3 {
		return // a request from before the last event
	}
	q.armed = armedAny
	if word&solicited != 0 {
		q.armed = armedSolicited
	}
	q.armedFrom = q.produced - (q.produced-word)&0xffffff
	q.notify()
}
