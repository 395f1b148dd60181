// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

const (
	ctrlSignal    = 2 << 2
	ctrlSolicited = 1 << 1
)

// fetch reads the next request and checks its control segment.
func (mlx5) fetch(q *queuePair) (workRequest, bool) {
	d, index := q.ctx.device, q.sqDone
	w := workRequest{id: uint64(index), blocks: 1}
	first := d.block(q, index)
	if first == nil {
		d.memoryGone(q.ctx, "QP %#x: its send queue is gone", q.number)
		return w, false
	}
	op, qpn := be.Uint32(first), be.Uint32(first[4:])
	ds := int(qpn & 0x3f)
	w.opcode, w.imm = byte(op), be.Uint32(first[12:])
	w.signal, w.solicited = first[11]&ctrlSignal != 0, first[11]&ctrlSolicited != 0
	if uint16(op>>8) != index || qpn>>8 != q.number || ds < 1 || 16*ds > maxSQDesc {
		d.violation("QP %#x: request %d has the control segment % x", q.number, index, first[:16])
		return w, false
	}
	w.blocks = uint16((ds + 3) / 4)
	if w.blocks > q.sqPosted-q.sqDone {
		d.violation("QP %#x: request %d has %d blocks, %d were posted", q.number, index, w.blocks, q.sqPosted-q.sqDone)
		return w, false
	}
	all := first
	for i := uint16(1); i < w.blocks; i++ {
		b := d.block(q, index+i)
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

// received is the number of receive requests that are posted and not taken.
func (q *queuePair) received() uint16 {
	var b [4]byte
	if q.rqEntries == 0 || q.ctx.mem.Read(q.record, b[:]) != nil {
		return 0
	}
	return uint16(be.Uint32(b[:])) - q.rqTaken
}

// receive names a request by its completion's counter.
func (mlx5) receive(q *queuePair) (id uint64, wqe []byte, ok bool) {
	if q.srq != nil {
		return q.srq.take()
	}
	counter, ok := q.nextReceive()
	if !ok {
		return 0, nil, false
	}
	wqe = make([]byte, 1<<q.rqShift)
	if q.ctx.mem.Read(q.buf+uint64(uint32(counter)&(q.rqEntries-1))<<q.rqShift, wqe) != nil {
		return 0, nil, false
	}
	return uint64(counter), wqe, true
}
