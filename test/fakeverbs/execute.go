// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"time"
)

// verdict is how an attempt ended: well, to be repeated, or with a syndrome of the completion.
type verdict int

const (
	good         verdict = 0
	again        verdict = -1
	notReady     verdict = -2 // no receive request
	unreachable  verdict = -3 // nobody answers
	synLocalLen  verdict = 0x01
	synLocalQPOp verdict = 0x02
	synLocalProt verdict = 0x04
	synFlush     verdict = 0x05
	synMWBind    verdict = 0x06
	synRemoteInv verdict = 0x12
	synRemoteAcc verdict = 0x13
	synRetry     verdict = 0x15
	synRNR       verdict = 0x16
	synAborted   verdict = 0x22
)

// Opcodes of send requests.
const (
	opNop         = 0x00
	opSendInval   = 0x01
	opWrite       = 0x08
	opWriteImm    = 0x09
	opSend        = 0x0a
	opSendImm     = 0x0b
	opRead        = 0x10
	opCompareSwap = 0x11
	opFetchAdd    = 0x12
	opUMR         = 0x25
)

// message is what a request sends to another QP.
type message struct {
	opcode    byte
	addr      uint64
	key       uint32
	data      []byte
	imm       uint32
	solicited bool
	// before is how many bytes of the message earlier packets have brought.
	before uint32
	// Of UD: the sender, the key of the queue, the UDP source port, and where it goes.
	qkey  uint32
	srcQP uint32
	src   [16]byte
	dst   [16]byte

	sourcePort uint16
}

// execute does one request.
func (d *Device) execute(q *queuePair, w workRequest, now time.Time) verdict {
	body := w.body
	m := message{opcode: w.opcode, imm: w.imm, solicited: w.solicited, srcQP: q.number, src: d.gid, dst: q.destGID()}
	dest := q.destQPN()
	if d.sink {
		return good
	}
	switch w.opcode {
	case opNop:
		return good
	case opUMR:
		// Only an RC QP's requests are known to be taken: libmlx5 makes them on others for windows alone.
		if q.kind == qptUD || !d.umr(q, w.imm, body) {
			return synMWBind
		}
		return good
	case opWrite, opWriteImm, opRead, opCompareSwap, opFetchAdd:
		if len(body) < 16 || q.kind == qptUD || q.kind == qptUC && w.opcode >= opRead {
			return synLocalQPOp
		}
		m.addr, m.key = be.Uint64(body), be.Uint32(body[8:])
		body = body[16:]
	case opSend, opSendImm:
		if q.kind != qptUD {
			break
		}
		if len(body) < 48 {
			return synLocalQPOp
		}
		m.qkey, dest, m.dst = be.Uint32(body), be.Uint32(body[8:])&0xffffff, [16]byte(body[32:48])
		m.sourcePort = be.Uint16(body[14:])
		body = body[48:]
	case opSendInval:
		if q.kind != qptRC {
			return synLocalQPOp
		}
	default:
		d.violation("QP %#x: request %d has the opcode %#x", q.number, w.id, w.opcode)
		return synLocalQPOp
	}
	if d.port != nil {
		return d.overNetwork(q, dest, &m, body)
	}
	peer := d.host.find(m.dst, dest)
	switch w.opcode {
	case opRead:
		return d.settle(q, d.read(q, peer, m, body), now)
	case opCompareSwap, opFetchAdd:
		return d.settle(q, d.atomic(q, peer, m, body), now)
	}
	if v := d.load(q, &m, body); v != good {
		return v
	}
	return d.settle(q, d.host.send(q, dest, &m, now), now)
}

// load reads a message's data.
func (d *Device) load(q *queuePair, m *message, body []byte) (v verdict) {
	if m.data, v = d.gather(q, body); v != good {
		return v
	}
	if q.kind == qptUD && len(m.data) > 4096 || len(m.data) > maxMessage {
		return synLocalLen
	}
	return good
}

// overNetwork sends a message of an unreliable QP in packets.
func (d *Device) overNetwork(q *queuePair, dest uint32, m *message, body []byte) verdict {
	if q.kind == qptRC {
		return synRetry // a port on the network has no reliable service
	}
	if v := d.load(q, m, body); v != good {
		return v
	}
	d.transmit(q, dest, m)
	return good
}

// gather reads a request's data: inline, or from its pieces of memory.
func (d *Device) gather(q *queuePair, segs []byte) ([]byte, verdict) {
	const inline = 1 << 31
	var data []byte
	for len(segs) >= 16 {
		n := be.Uint32(segs)
		if n&inline != 0 {
			n &^= inline
			size := (4 + int(n) + 15) &^ 15
			if size > len(segs) {
				return nil, synLocalLen
			}
			data = append(data, segs[4:4+n]...)
			segs = segs[size:]
			continue
		}
		if n > maxMessage {
			return nil, synLocalLen
		}
		pieces, ok := d.translate(nil, be.Uint32(segs[4:]), q.pd.number, be.Uint64(segs[8:]), n, localRead, 0)
		if !ok {
			return nil, synLocalProt
		}
		at := len(data)
		data = append(data, make([]byte, n)...)
		if !read(pieces, data[at:]) {
			return nil, synLocalProt
		}
		segs = segs[16:]
	}
	return data, good
}

// rnrPause is how long a sender waits for a receive request: the least that IBTA has, times ten.
const rnrPause = 100 * time.Microsecond

// settle turns what became of a message into what becomes of the request: a reliable QP tries again,
// an unreliable one has done its part.
func (d *Device) settle(q *queuePair, v verdict, now time.Time) verdict {
	if q.kind != qptRC {
		if v != good {
			d.stats.Dropped++
		}
		return good
	}
	if !q.waiting {
		q.rnrLeft = q.rnrRetries()
		q.giveUpAt = now.Add(ackTimeout(q.timeout()) * time.Duration(1+q.retries()))
	}
	switch v {
	case notReady:
		const forever = 7
		if q.rnrLeft == 0 {
			return synRNR
		}
		if q.rnrLeft != forever {
			q.rnrLeft--
		}
		q.retryAt = now.Add(rnrPause)
	case unreachable:
		if q.timeout() != 0 && now.After(q.giveUpAt) {
			return synRetry
		}
		q.retryAt = now.Add(rnrPause)
	default:
		return v
	}
	q.waiting = true
	return again
}

// ackTimeout is 4.096 µs · 2^n, as IBTA has it.
func ackTimeout(n uint8) time.Duration { return 4096 * time.Nanosecond << (n & 31) }

// deliver is a message's arrival at its QP.
func (d *Device) deliver(q *queuePair, m *message) verdict {
	if q.state != stateRTR && q.state != stateRTS {
		return unreachable
	}
	switch m.opcode {
	case opWrite, opWriteImm:
		return d.deliverWrite(q, m)
	}
	if q.kind == qptUD && m.qkey != q.qkey() {
		return unreachable
	}
	if m.opcode == opSendInval && !d.invalidates(q, m.imm) {
		return d.accessError(q)
	}
	id, wqe, ok := d.driver.receive(q)
	if !ok {
		return notReady
	}
	if q.srq != nil && d.pageIn(wqe) {
		d.complete(q.recvCQ, completion{q: q, kind: cqeRespError, id: id, syndrome: synAborted, vendor: vendorPageFault})
		return notReady
	}
	pieces, ok := d.scatter(q, wqe)
	data := m.data
	if q.kind == qptUD {
		data = append(grh(m), data...)
	}
	switch {
	case !ok:
		d.errorCQE(q, q.recvCQ, cqeRespError, id, 0, synLocalProt)
		q.enter(stateError)
		return synRemoteInv
	case len(data) > total(pieces):
		d.errorCQE(q, q.recvCQ, cqeRespError, id, 0, synLocalLen)
		q.enter(stateError)
		return synRemoteInv
	}
	c := completion{q: q, kind: cqeRecv, id: id, bytes: uint32(len(data)), srcQP: m.srcQP, grh: q.kind == qptUD, solicited: m.solicited}
	switch m.opcode {
	case opSendImm:
		c.kind, c.imm = cqeRecvImm, m.imm
	case opSendInval:
		c.kind, c.imm = cqeRecvInval, m.imm
		d.keys[m.imm>>8].free = true
	}
	if q.kind != qptUD && q.scatterCQE && len(data) > 0 && len(data) <= int(q.recvCQ.entrySize)/2 {
		c.data = data
		d.complete(q.recvCQ, c)
		return good
	}
	if !write(pieces, data) {
		d.memoryGone(q.ctx, "QP %#x: memory of a receive request is gone", q.number)
	}
	d.complete(q.recvCQ, c)
	return good
}

// invalidates tells whether a peer may free a key.
func (d *Device) invalidates(q *queuePair, value uint32) bool {
	k := d.keys[value>>8]
	return k != nil && k.value == value && k.pd == q.pd.number && k.remoteInvalid && !k.free && (k.window != window2 || k.owner == q.number)
}

// deliverWrite is an RDMA write, with or without immediate data.
func (d *Device) deliverWrite(q *queuePair, m *message) verdict {
	if q.rights()&remoteWrite == 0 {
		return d.accessError(q)
	}
	var pieces []piece
	if len(m.data) > 0 {
		var ok bool
		if pieces, ok = d.remote(q, m, uint32(len(m.data)), remoteWrite); !ok {
			return d.accessError(q)
		}
	}
	var id uint64
	if m.opcode == opWriteImm {
		var ok bool
		if id, _, ok = d.driver.receive(q); !ok {
			return notReady
		}
	}
	p := placement{q: q, m: *m, pieces: pieces, id: id}
	if d.placement > 0 {
		p.due = time.Now().Add(d.placement)
		d.placing = append(d.placing, p)
		return good
	}
	d.place(&p)
	return good
}

// placement is a write whose memory the device has found.
type placement struct {
	q      *queuePair
	m      message
	pieces []piece
	id     uint64 // of the receive request
	due    time.Time
}

// place writes a packet's data and completes it.
func (d *Device) place(p *placement) {
	q, m := p.q, &p.m
	if !write(p.pieces, m.data) && d.placement == 0 {
		d.memoryGone(q.ctx, "QP %#x: registered memory is gone", q.number)
	}
	if m.opcode != opWriteImm || d.qps[q.number] != q {
		return
	}
	d.complete(q.recvCQ, completion{q: q, kind: cqeRecvWrite, id: p.id, bytes: m.before + uint32(len(m.data)), srcQP: m.srcQP, imm: m.imm,
		solicited: m.solicited})
}

// placeDue writes what has waited long enough. It reports whether there was anything.
func (d *Device) placeDue(now time.Time) bool {
	n := 0
	for n < len(d.placing) && !now.Before(d.placing[n].due) {
		d.place(&d.placing[n])
		n++
	}
	d.placing = d.placing[n:]
	return n > 0
}

// accessError is a remote access that isn't allowed. An unreliable QP drops it and lives on.
func (d *Device) accessError(q *queuePair) verdict {
	if q.kind == qptRC {
		q.enter(stateError)
		if !q.byCommand {
			q.ctx.event(q.userHandle, eventQPAccess)
		}
	}
	return synRemoteAcc
}

// grh is what lies before a datagram on RoCEv2 over IPv4: 20 bytes of nothing, then the IP header.
func grh(m *message) []byte {
	b := make([]byte, 40)
	ip := b[20:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	be.PutUint16(ip[2:], uint16(20+8+12+8+len(m.data)+4))
	copy(ip[12:], m.src[12:])
	copy(ip[16:], m.dst[12:])
	return b
}

// read is an RDMA read of peer's memory into the request's own.
func (d *Device) read(q *queuePair, peer *queuePair, m message, segs []byte) verdict {
	if peer == nil || peer.state != stateRTR && peer.state != stateRTS {
		return unreachable
	}
	pieces, ok := d.scatter(q, segs)
	if !ok {
		return synLocalProt
	}
	data := make([]byte, total(pieces))
	p := peer.ctx.device
	remote, ok := p.remote(peer, &m, uint32(len(data)), remoteRead)
	if len(data) > 0 && (!ok || peer.rights()&remoteRead == 0 || !read(remote, data)) {
		return p.accessError(peer)
	}
	if !write(pieces, data) {
		return synLocalProt
	}
	return good
}

// atomic is a compare and swap, or a fetch and add, of 8 bytes.
func (d *Device) atomic(q *queuePair, peer *queuePair, m message, segs []byte) verdict {
	if len(segs) < 32 {
		return synLocalQPOp
	}
	if peer == nil || peer.state != stateRTR && peer.state != stateRTS {
		return unreachable
	}
	swapAdd, compare := be.Uint64(segs), be.Uint64(segs[8:])
	pieces, ok := d.scatter(q, segs[16:])
	if !ok || total(pieces) != 8 {
		return synLocalProt
	}
	if m.addr%8 != 0 {
		return synRemoteInv
	}
	p := peer.ctx.device
	var b [8]byte
	remote, ok := p.remote(peer, &m, 8, remoteAtomic)
	if !ok || peer.rights()&remoteAtomic == 0 || !read(remote, b[:]) {
		return p.accessError(peer)
	}
	old := le.Uint64(b[:])
	value := old
	if m.opcode == opFetchAdd {
		value += swapAdd
	} else if old == compare {
		value = swapAdd
	}
	if !write(remote, le.AppendUint64(nil, value)) || !write(pieces, le.AppendUint64(nil, old)) {
		return synLocalProt
	}
	return good
}
