// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"bytes"
	"time"
)

// Offsets in a doorbell page: of CQ requests, and of the send doorbells, which drivers alternate.
const (
	cqDoorbell      = 0x20
	sendDoorbell    = 0x800
	sendDoorbellEnd = 0xc00
	doorbellStep    = 0x100
)

// step looks at all doorbells and works on all queues once. It reports whether there was anything to do.
func (d *Device) step() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.advance()
}

// advance is step with mu held.
func (d *Device) advance() bool {
	if d.removed {
		return false
	}
	busy := false
	d.list()
	for _, u := range d.doorbells {
		busy = d.look(u) || busy
	}
	if d.port != nil {
		busy = d.listen() || busy
	}
	now := time.Now()
	busy = d.host.bringLate(now) || busy
	busy = d.placeDue(now) || busy
	d.announce()
	for _, q := range d.pairs {
		busy = d.work(q, now) || busy
	}
	return busy
}

// list makes the lists of what the device looks at in each step, which is most of what it does, from the maps that have changed.
func (d *Device) list() {
	if d.listed {
		return
	}
	d.listed = true
	d.doorbells, d.pairs = d.doorbells[:0], d.pairs[:0]
	for _, c := range d.contexts {
		for _, u := range c.uars {
			d.doorbells = append(d.doorbells, u)
		}
	}
	for _, q := range d.qps {
		d.pairs = append(d.pairs, q)
	}
}

// look takes what was written to a doorbell page.
func (d *Device) look(u *uar) bool {
	busy := false
	base := int(u.page) * uarSize
	if b := u.ctx.file.Take(base + cqDoorbell); b != [8]byte{} {
		busy = true
		d.armByNumber(u, be.Uint32(b[:4]), be.Uint32(b[4:]))
	}
	for off := base + sendDoorbell; off < base+sendDoorbellEnd; off += doorbellStep {
		b := u.ctx.file.Take(off)
		if b == [8]byte{} {
			continue
		}
		busy = true
		d.stats.Doorbells++
		d.ring(u, off-base, b)
	}
	return busy
}

func (d *Device) armByNumber(u *uar, word, number uint32) {
	found := false
	for _, o := range u.ctx.objects {
		if made, ok := o.(devxQueue); ok {
			o = made.object
		}
		q, ok := o.(*completionQueue)
		if !ok {
			continue
		}
		if q.number == number {
			found = true
			d.arm(q, word)
		} else if q.uar == u {
			d.rearm(q)
		}
	}
	if !found {
		d.violation("doorbell page %d: CQ %#x doesn't exist", u.page, number)
	}
}

// rearm sees a request whose doorbell another one may have overwritten before the device looked.
// Hardware sees each store.
func (d *Device) rearm(q *completionQueue) {
	var b [4]byte
	if q.armed == notArmed && q.ctx.mem.Read(q.record+4, b[:]) == nil && be.Uint32(b[:]) != 0 && be.Uint32(b[:])>>28&3 == q.events&3 {
		d.arm(q, be.Uint32(b[:]))
	}
}

// ring reads the records of the QPs that ring in this page: that of the one that the doorbell names, and of the
// others, whose doorbells it may have overwritten before the device looked.
func (d *Device) ring(u *uar, register int, doorbell [8]byte) {
	number := be.Uint32(doorbell[4:]) >> 8
	if q := d.qps[number]; q == nil || q.uar != u {
		d.violation("doorbell page %d: QP %#x doesn't exist or rings elsewhere", u.page, number)
	}
	for _, q := range d.qps {
		if q.uar != u {
			continue
		}
		var b [4]byte
		if q.ctx.mem.Read(q.record+4, b[:]) != nil {
			continue
		}
		posted := uint16(be.Uint32(b[:]))
		if q.state < stateRTS {
			if q.number == number {
				d.violation("QP %#x: doorbell in state %d", number, q.state)
			}
			continue
		}
		if uint32(posted-q.sqDone) > q.sqBlocks {
			d.violation("QP %#x: record says %d, %d is done, and the queue has %d blocks", q.number, posted, q.sqDone, q.sqBlocks)
			continue
		}
		if d.host.Posted != nil && q.number == number {
			p := d.posted(q, doorbell, be.Uint32(b[:]))
			p.Register, p.BlueFlame = register, u.burnt()
			u.lastRegister, u.lastBlocks = register, bytes.Clone(p.Blocks)
			d.host.Posted(p)
		}
		q.sqPosted = posted
	}
}

// burnt is how many bytes the doorbell of before has left in its register, and empties it. Only that one's copying has surely ended.
func (u *uar) burnt() int {
	if u.lastBlocks == nil {
		return 0
	}
	var left []byte
	n := 0
	for off := 8; off < doorbellStep; off += 8 { // the first 8 bytes were the doorbell
		b := u.ctx.file.Take(int(u.page)*uarSize + u.lastRegister + off)
		left = append(left, b[:]...)
		if b != [8]byte{} {
			n = len(left)
		}
	}
	if n == 0 {
		return 0
	}
	const block = 64 // what is copied at a time, which may end with zeros
	n = (8 + n + block - 1) / block * block
	if n > len(u.lastBlocks) || !bytes.Equal(left[:n-8], u.lastBlocks[8:n]) {
		return -1
	}
	return n
}

// posted reads what a doorbell brought.
func (d *Device) posted(q *queuePair, doorbell [8]byte, record uint32) Posted {
	p := Posted{QPN: q.number, UD: q.kind == qptUD, Doorbell: doorbell, Record: record}
	for i := q.sqPosted; i != uint16(record); i++ {
		p.Blocks = append(p.Blocks, d.block(q, i)...)
	}
	var b [4]byte
	if s := q.srq; s != nil {
		if q.sqPosted == 0 && q.ctx.mem.Read(s.record, b[:]) == nil {
			p.ReceiveRecord = be.Uint32(b[:])
			p.ReceiveEntries = make([]byte, s.entries*s.stride)
			if q.ctx.mem.Read(s.buf, p.ReceiveEntries) != nil {
				p.ReceiveEntries = nil
			}
		}
		return p
	}
	if q.sqPosted == 0 && q.ctx.mem.Read(q.record, b[:]) == nil {
		p.ReceiveRecord = be.Uint32(b[:])
		p.ReceiveEntries = make([]byte, min(p.ReceiveRecord, q.rqEntries)<<q.rqShift)
		if q.ctx.mem.Read(q.buf, p.ReceiveEntries) != nil {
			p.ReceiveEntries = nil
		}
	}
	return p
}

// burst is how many requests of a QP are done before the next one's turn.
const burst = 32

// work does requests of a QP's send queue, and in state ERROR flushes both queues.
func (d *Device) work(q *queuePair, now time.Time) bool {
	if q.state == stateError {
		return d.flush(q)
	}
	if q.state < stateRTS || q.waiting && now.Before(q.retryAt) {
		return false
	}
	busy := false
	for range burst {
		if q.sqDone == q.sqPosted || q.state != stateRTS {
			break
		}
		w, ok := d.fetch(q)
		if !ok {
			d.fail(q, w, synLocalQPOp)
			return true
		}
		v := d.execute(q, w, now)
		if v == again {
			return busy
		}
		busy = true
		d.stats.WorkRequests++
		q.waiting = false
		if v != good {
			d.fail(q, w, v)
			return true
		}
		d.finish(q, w)
	}
	return busy
}

// workRequest is an entry of a send queue.
type workRequest struct {
	index     uint16
	opcode    byte
	blocks    uint16
	signal    bool
	solicited bool
	imm       uint32
	// body is what follows the control segment.
	body []byte
	// bytes is what a read or an atomic brought.
	bytes uint32
}

const (
	ctrlSignal    = 2 << 2
	ctrlSolicited = 1 << 1
)

// fetch reads the next request and checks its control segment.
func (d *Device) fetch(q *queuePair) (workRequest, bool) {
	w := workRequest{index: q.sqDone, blocks: 1}
	first := d.block(q, w.index)
	if first == nil {
		d.memoryGone(q.ctx, "QP %#x: its send queue is gone", q.number)
		return w, false
	}
	op, qpn := be.Uint32(first), be.Uint32(first[4:])
	ds := int(qpn & 0x3f)
	w.opcode, w.imm = byte(op), be.Uint32(first[12:])
	w.signal, w.solicited = first[11]&ctrlSignal != 0, first[11]&ctrlSolicited != 0
	if uint16(op>>8) != w.index || qpn>>8 != q.number || ds < 1 || 16*ds > maxSQDesc {
		d.violation("QP %#x: request %d has the control segment % x", q.number, w.index, first[:16])
		return w, false
	}
	w.blocks = uint16((ds + 3) / 4)
	if w.blocks > q.sqPosted-q.sqDone {
		d.violation("QP %#x: request %d has %d blocks, %d were posted", q.number, w.index, w.blocks, q.sqPosted-q.sqDone)
		return w, false
	}
	all := first
	for i := uint16(1); i < w.blocks; i++ {
		b := d.block(q, w.index+i)
		if b == nil {
			return w, false
		}
		all = append(all, b...)
	}
	w.body = all[16 : 16*ds]
	return w, true
}

func (d *Device) block(q *queuePair, index uint16) []byte {
	b := make([]byte, 64)
	sq := q.buf + uint64(q.rqEntries)<<q.rqShift
	if q.ctx.mem.Read(sq+uint64(uint32(index)&(q.sqBlocks-1))*64, b) != nil {
		return nil
	}
	return b
}

// finish completes a request that went well.
func (d *Device) finish(q *queuePair, w workRequest) {
	q.sqDone += w.blocks
	if !w.signal {
		return
	}
	c := q.cqe(w.index)
	c[56] = w.opcode
	be.PutUint32(c[44:], w.bytes)
	d.complete(q.sendCQ, cqeRequest, c, nil, false)
}

// cqe fills in what all completions of the QP have.
func (q *queuePair) cqe(counter uint16) (c [64]byte) {
	be.PutUint32(c[32:], q.userIndex)
	be.PutUint32(c[56:], q.number)
	be.PutUint16(c[60:], counter)
	return c
}

// fail completes a request with an error, and the QP goes to ERROR.
func (d *Device) fail(q *queuePair, w workRequest, syndrome verdict) {
	q.sqDone += max(w.blocks, 1)
	d.errorCQE(q, q.sendCQ, cqeReqError, w.index, w.opcode, syndrome)
	q.enter(stateError)
}

func (d *Device) errorCQE(q *queuePair, cq *completionQueue, kind byte, counter uint16, opcode byte, syndrome verdict) {
	c := q.cqe(counter)
	c[54], c[55], c[56] = vendorSyndrome, byte(syndrome), opcode
	d.complete(cq, kind, c, nil, true)
}

// vendorSyndrome is some code of the device.
const vendorSyndrome = 0x68

// flush completes what is left in both queues with flush errors.
func (d *Device) flush(q *queuePair) bool {
	busy := false
	for q.sqDone != q.sqPosted {
		w, _ := d.fetch(q)
		q.sqDone += min(max(w.blocks, 1), q.sqPosted-q.sqDone)
		d.errorCQE(q, q.sendCQ, cqeReqError, w.index, w.opcode, synFlush)
		busy = true
	}
	if q.srq != nil {
		return busy
	}
	for {
		counter, ok := q.nextReceive()
		if !ok {
			return busy
		}
		d.errorCQE(q, q.recvCQ, cqeRespError, counter, 0, synFlush)
		busy = true
	}
}

// received is the number of receive requests that are posted and not taken.
func (q *queuePair) received() uint16 {
	var b [4]byte
	if q.rqEntries == 0 || q.ctx.mem.Read(q.record, b[:]) != nil {
		return 0
	}
	return uint16(be.Uint32(b[:])) - q.rqTaken
}

// receive takes the next receive request: the counter of its completion, and its scatter list.
func (q *queuePair) receive() (counter uint16, wqe []byte, ok bool) {
	if q.srq != nil {
		return q.srq.take()
	}
	if counter, ok = q.nextReceive(); !ok {
		return 0, nil, false
	}
	wqe = make([]byte, 1<<q.rqShift)
	if q.ctx.mem.Read(q.buf+uint64(uint32(counter)&(q.rqEntries-1))<<q.rqShift, wqe) != nil {
		return 0, nil, false
	}
	return counter, wqe, true
}

// invalidLKey ends a scatter list.
const invalidLKey = 0x100

// scatter finds the memory of a receive request. It fails when a key is dead.
func (d *Device) scatter(q *queuePair, wqe []byte) (pieces []piece, ok bool) {
	for ; len(wqe) >= 16; wqe = wqe[16:] {
		n, lkey, addr := be.Uint32(wqe), be.Uint32(wqe[4:]), be.Uint64(wqe[8:])
		if lkey == invalidLKey {
			break
		}
		if pieces, ok = d.translate(pieces, lkey, q.pd.number, addr, n, localWrite, 0); !ok {
			return nil, false
		}
	}
	return pieces, true
}
