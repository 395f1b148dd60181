// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "bytes"

// Offsets in a doorbell page: of CQ requests, and of the send doorbells, which drivers alternate.
const (
	cqDoorbell      = 0x20
	sendDoorbell    = 0x800
	sendDoorbellEnd = 0xc00
	doorbellStep    = 0x100
)

// look takes what was written to a doorbell page.
func (d *Device) look(u *uar) bool {
	busy := false
	base := int(u.page) * PageSize
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
		b := u.ctx.file.Take(int(u.page)*PageSize + u.lastRegister + off)
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
