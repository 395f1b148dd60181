// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// rxe is Soft-RoCE's driver: queues are rings in the kernel's memory, which the program maps, and the doorbell is a write command
// (rdma_user_rxe.h, drivers/infiniband/sw/rxe). It has no memory windows, no invalidations, and queues of one size.
type rxe struct{}

// ringSpace is the size of a context's file; its first page is no ring's, so that no offset of one is 0.
const ringSpace = 1 << 30

var rxeIdentity = identity{id: 14, abi: 2, vendor: 0xffffff, atomics: atomicHCA, file: ringSpace}

func (rxe) identity() *identity { return &rxeIdentity }

// sysfs: the parent is by what package verbs knows the driver.
func (rxe) sysfs(entries map[string]string, _, ib string) (links map[string]string) {
	entries[ib+"fw_ver"], entries[ib+"parent"] = "", "eth0"
	return nil
}

func (rxe) alloc(*context, *request) unix.Errno { return 0 }
func (rxe) queryDeviceEx([]byte, *request)      {}

// ah: requests have the handle's number (struct rxe_create_ah_resp).
func (rxe) ah(_ *addressHandle, handle uint32, r *request) { r.out64(uhwOut, uint64(handle)) }

func (rxe) command(c *context, r *request, cmd uint32) unix.Errno {
	switch cmd {
	case cmdReqNotifyCQ:
		in := r.in(coreIn, 8)
		q, e := get[*completionQueue](c, le.Uint32(in))
		if e == 0 && q.armed != armedAny {
			q.armed, q.armedFrom = armedAny, q.produced
			if le.Uint32(in[4:]) != 0 {
				q.armed = armedSolicited
			}
		}
		return e
	case cmdPostSend:
		const handle = 8 // behind the address of the response
		q, e := get[*queuePair](c, le.Uint32(r.in(coreIn, 24)[handle:]))
		if e != 0 || q.state < stateRTS {
			return unix.EINVAL
		}
		q.sqPosted += uint16((q.sq.produced() - uint32(q.sqPosted)) & q.sq.mask)
		c.device.stats.Doorbells++
		return 0
	}
	return unix.EOPNOTSUPP
}

// Sizes of rings' entries: struct ib_uverbs_wc, struct rxe_send_wqe and struct rxe_recv_wqe, without lists of memory.
const rxeCQE, rxeSend, rxeRecv, rxeSGE = 64, 208, 40, 16

func (rxe) cq(q *completionQueue, r *request) (e unix.Errno) {
	if r.u32(5) != 0 || r.room(uhwOut) < 16 {
		return unix.EINVAL
	}
	if q.ring, e = q.ctx.newRing(q.entries-1, rxeCQE); e != 0 {
		return e
	}
	q.entries = q.ring.mask // one stays empty
	r.out(uhwOut, q.ring.info())
	return 0
}

func (rxe) srq(q *sharedQueue, r *request) (e unix.Errno) {
	if q.ring, e = q.ctx.newRing(q.wr, rxeRecv+rxeSGE*q.sge); e != 0 {
		return e
	}
	r.out(uhwOut, le.AppendUint64(q.ring.info(), uint64(q.number)))
	return 0
}

// qp makes the entries of the send queue large enough for the list and for inline data, and says so (rxe_qp_init_req).
func (rxe) qp(q *queuePair, r *request) (e unix.Errno) {
	wr, recvWR, sge, recvSGE, inline := le.Uint32(q.caps), le.Uint32(q.caps[4:]), le.Uint32(q.caps[8:]), le.Uint32(q.caps[12:]), le.Uint32(q.caps[16:])
	const maxInline = 512
	switch {
	case r.find(uhwIn).size() != 0, r.room(uhwOut) < 32, wr > maxQPWR, recvWR > maxQPWR, sge > maxSGE, recvSGE > maxSGE, inline > maxInline:
		return unix.EINVAL
	}
	tail := max(rxeSGE*sge, (inline+rxeSGE-1)&^(rxeSGE-1))
	le.PutUint32(q.caps[8:], tail/rxeSGE)
	le.PutUint32(q.caps[16:], tail)
	if q.sq, e = q.ctx.newRing(wr, rxeSend+tail); e != 0 {
		return e
	}
	info := make([]byte, 16)
	if q.srq == nil {
		if q.rq, e = q.ctx.newRing(recvWR, rxeRecv+rxeSGE*recvSGE); e != 0 {
			q.sq.free()
			return e
		}
		info = q.rq.info()
	}
	r.out(uhwOut, append(info, q.sq.info()...))
	return 0
}

func (rxe) caps(q *queuePair) []byte { return q.caps }

// rxeOpcodes are those of enum ib_wr_opcode in the engine's words.
var rxeOpcodes = map[uint32]byte{0: opWrite, 1: opWriteImm, 2: opSend, 3: opSendImm, 4: opRead, 5: opCompareSwap, 6: opFetchAdd}

// Flags of a send request.
const rxeSignaled, rxeSolicited, rxeInline = 2, 4, 8

// fetch reads struct rxe_send_wqe.
func (rxe) fetch(q *queuePair) (workRequest, bool) {
	b := q.sq.entry(uint32(q.sqDone))
	flags, state, length, resid, sges := le.Uint32(b[16:]), le.Uint32(b[148:]), le.Uint32(b[184:]), le.Uint32(b[188:]), le.Uint32(b[196:])
	w := workRequest{id: le.Uint64(b), blocks: 1, imm: be.Uint32(b[20:]), signal: q.signalAll || flags&rxeSignaled != 0, solicited: flags&rxeSolicited != 0}
	op, ok := rxeOpcodes[le.Uint32(b[12:])]
	data := b[rxeSend:]
	switch {
	case !ok, state != 0, resid != length, le.Uint32(b[192:]) != 0, le.Uint32(b[200:]) != 0, int(sges) > len(data)/rxeSGE,
		flags&rxeInline != 0 && int(length) > len(data):
		q.ctx.device.violation("QP %#x: request %d is % x", q.number, q.sqDone, b[:rxeSend])
		return w, false
	}
	w.opcode = op
	if w.body, ok = rxeTarget(q, op, b); !ok {
		return w, false
	}
	if flags&rxeInline != 0 {
		const inline = 1 << 31
		w.body = append(be.AppendUint32(w.body, inline|length), data[:length]...)
		w.body = append(w.body, make([]byte, -len(w.body)&15)...)
		return w, true
	}
	list, sum := list(data, sges)
	if sum != uint64(length) {
		q.ctx.device.violation("QP %#x: request %d says %d bytes, and has pieces of %d", q.number, q.sqDone, length, sum)
	}
	w.body = append(w.body, list...)
	return w, true
}

// rxeTarget is the part of the body in which a request says what it goes to: the union wr of struct rxe_send_wr.
func rxeTarget(q *queuePair, op byte, b []byte) (body []byte, ok bool) {
	const union, iova = 24, 152
	wr := b[union:]
	remote := func(rkey int) []byte { // atomics have theirs elsewhere
		return be.AppendUint64(be.AppendUint64(nil, le.Uint64(b[iova:])), uint64(le.Uint32(wr[rkey:]))<<32)
	}
	switch op {
	case opWrite, opWriteImm, opRead:
		return remote(8), true
	case opCompareSwap:
		body = be.AppendUint64(remote(24), le.Uint64(wr[16:]))
		return be.AppendUint64(body, le.Uint64(wr[8:])), true
	case opFetchAdd:
		body = be.AppendUint64(remote(24), le.Uint64(wr[8:]))
		return be.AppendUint64(body, 0), true
	}
	if q.kind != qptUD {
		return nil, true
	}
	ah, e := get[*addressHandle](q.ctx, le.Uint32(wr[12:]))
	if e != 0 {
		return nil, false
	}
	body = make([]byte, 48)
	be.PutUint32(body, le.Uint32(wr[4:]))
	be.PutUint32(body[8:], le.Uint32(wr))
	be.PutUint16(body[14:], labelPort(ah.label, q.number))
	copy(body[32:], ah.gid[:])
	return body, true
}

// list turns n elements of struct rxe_sge into the engine's list, and sums their lengths up.
func list(data []byte, n uint32) (l []byte, sum uint64) {
	for ; n > 0; n-- {
		sum += uint64(le.Uint32(data[8:]))
		l = be.AppendUint32(l, le.Uint32(data[8:]))
		l = be.AppendUint32(l, le.Uint32(data[12:]))
		l = be.AppendUint64(l, le.Uint64(data))
		data = data[rxeSGE:]
	}
	return l, sum
}

func (rxe) taken(q *queuePair) { q.sq.consume(uint32(q.sqDone)) }

// reset: the kernel clears the rings, and leaves their indices where they are.
func (rxe) reset(q *queuePair) { q.sqPosted = q.sqDone }

// receive reads struct rxe_recv_wqe.
func (rxe) receive(q *queuePair) (id uint64, wqe []byte, ok bool) {
	r := q.rq
	if q.srq != nil {
		r = q.srq.ring
	}
	at := r.consumed()
	left := (r.produced() - at) & r.mask
	if left == 0 {
		return 0, nil, false
	}
	const numSGE = 28
	b := r.entry(at)
	n := le.Uint32(b[numSGE:])
	if int(n) > (len(b)-rxeRecv)/rxeSGE {
		q.ctx.device.violation("QP %#x: a receive request has %d pieces", q.number, n)
		n = 0
	}
	wqe, _ = list(b[rxeRecv:], n)
	r.consume(at + 1)
	if q.srq != nil {
		q.srq.left(left - 1)
	}
	return le.Uint64(b), wqe, true
}

// What a completion says, by the engine's kinds: enum ib_wc_opcode; and by its syndromes, which have the numbers of enum ib_wc_status
// where they aren't listed.
var (
	rxeKinds     = map[byte]uint32{cqeRecv: 128, cqeRecvImm: 128, cqeRespError: 128, cqeRecvWrite: 129}
	rxeSends     = map[byte]uint32{opSend: 0, opSendImm: 0, opWrite: 1, opWriteImm: 1, opRead: 2, opCompareSwap: 3, opFetchAdd: 4}
	rxeSyndromes = map[verdict]uint32{synRemoteInv: 9, synRemoteAcc: 10, synRetry: 12, synRNR: 13}
)

// write writes struct ib_uverbs_wc.
func (rxe) write(q *completionQueue, c *completion) bool {
	b := q.ring.entry(q.produced)
	clear(b)
	status, ok := rxeSyndromes[c.syndrome]
	if !ok {
		status = uint32(c.syndrome)
	}
	kind, ok := rxeKinds[c.kind]
	if !ok {
		kind = rxeSends[c.opcode]
	}
	const withGRH, withImm = 1, 2
	var flags uint32
	if c.kind == cqeRecvImm || c.kind == cqeRecvWrite {
		flags = withImm
	}
	if ok && status == 0 {
		flags |= withGRH // each RoCE packet has a GRH or an IP header
	}
	le.PutUint64(b, c.id)
	le.PutUint32(b[8:], status)
	le.PutUint32(b[12:], kind)
	le.PutUint32(b[20:], c.bytes)
	be.PutUint32(b[24:], c.imm)
	le.PutUint32(b[28:], c.q.number)
	if c.grh {
		le.PutUint32(b[32:], c.srcQP)
	}
	le.PutUint32(b[36:], flags)
	b[46] = portNumber
	q.ring.produce(q.produced + 1)
	return true
}

func (rxe) consume(q *completionQueue) {
	q.consumed += (q.ring.consumed() - q.consumed) & q.ring.mask
}
