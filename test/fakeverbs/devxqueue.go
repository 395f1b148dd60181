// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"golang.org/x/sys/unix"
)

// Queues that a program makes by firmware commands: their memory is in umems, and the kernel knows them by a handle only. The
// layouts are those of mlx5_ifc.h (create_cq_in, cqc, create_qp_in, qpc, ads).

// Firmware commands on queues.
const (
	opCreateCQ = 0x400
	opCreateQP = 0x500
	opRST2INIT = 0x502
	opINIT2RTR = 0x503
	opRTR2RTS  = 0x504
	op2ERR     = 0x507
	op2RST     = 0x50a
)

// status is the first byte of a command's answer.
type status byte

const (
	statusOK          status = 0
	statusBadParam    status = 0x3
	statusBadResource status = 0x5
	statusBadState    status = 0x10 // of a QP
	statusBadLength   status = 0x50
)

// devxQueue is a CQ or QP that was made by a firmware command.
type devxQueue struct {
	object
	memory []*umem
}

func newDevxQueue(o object, memory ...*umem) devxQueue {
	for _, u := range memory {
		u.users++
	}
	return devxQueue{o, memory}
}

func (q devxQueue) destroy(d *Device) unix.Errno {
	e := q.object.destroy(d)
	if e == 0 {
		for _, u := range q.memory {
			u.users--
		}
	}
	return e
}

// destroyDEVX is DEVX_OBJ_DESTROY.
func (c *context) destroyDEVX(r *request) unix.Errno {
	handle := r.handle(0x1000)
	if _, ok := c.objects[handle].(devxQueue); ok {
		return remove[devxQueue](c, handle)
	}
	return remove[*key](c, handle)
}

// eqn of the event queue of a completion vector.
func eqn(vector uint32) uint32 { return 0x10 + vector }

// queryEQN is DEVX_QUERY_EQN.
func (c *context) queryEQN(r *request) unix.Errno {
	vector := r.u32(0x1000)
	if !c.devx || vector >= compVectors {
		return unix.EINVAL
	}
	r.out32(0x1001, eqn(vector))
	return 0
}

const low24 = 0xffffff

// newDEVXCQ is CREATE_CQ.
func (c *context) newDEVXCQ(in []byte) (o devxQueue, number uint32, s status) {
	if len(in) < 272 {
		return o, 0, statusBadLength
	}
	cqc := in[16:80]
	const dbrValid, collapsed, ignoreOverrun, compression, memoryValid = 1 << 1, 1 << 4, 1 << 1, 1 << 6, 1 << 7
	log, eventQueue := cqc[12]&0x1f, be.Uint32(cqc[20:])
	q := &completionQueue{ctx: c, entries: 1 << log, entrySize: 64, uar: c.uars[be.Uint32(cqc[12:])&low24], ignoreOverrun: cqc[1]&ignoreOverrun != 0, byCommand: true}
	switch size := cqc[1] >> 5; size {
	case 0:
	case 1:
		q.entrySize = 128
	default:
		return o, 0, statusBadParam
	}
	switch {
	case cqc[0]&dbrValid == 0, in[92]&memoryValid == 0: // a program knows no physical addresses
		return o, 0, statusBadParam
	case cqc[1]&collapsed != 0, cqc[2]&compression != 0, log > 22, q.uar == nil, eventQueue != eqn(0) && eventQueue != eqn(1):
		return o, 0, statusBadParam
	}
	mem, buf, ok := c.place(be.Uint32(in[88:]), be.Uint64(in[80:]), uint64(q.entries)*uint64(q.entrySize), true)
	dbr, record, ok2 := c.place(be.Uint32(cqc[4:]), be.Uint64(cqc[56:]), 8, false)
	if !ok || !ok2 || buf%64 != 0 || record%8 != 0 {
		return o, 0, statusBadResource
	}
	q.buf, q.record, q.number = buf, record, c.device.number()
	q.uar.users++
	return newDevxQueue(q, mem, dbr), q.number, statusOK
}

// newDEVXQP is CREATE_QP.
func (c *context) newDEVXQP(in []byte) (o devxQueue, number uint32, s status) {
	if len(in) < 272 {
		return o, 0, statusBadLength
	}
	qpc := in[24:256]
	const migrated, regular, noReceives, noSends, dbrValid, memoryValid = 3, 0, 3, 1 << 7, 1 << 4, 1 << 7
	kind, ok := map[byte]uint32{0: qptRC, 1: qptUC, 2: qptUD}[qpc[1]]
	q := &queuePair{ctx: c, kind: kind, userIndex: be.Uint32(qpc[16:]) & low24, uar: c.uars[be.Uint32(qpc[12:])&low24], byCommand: true,
		rqEntries: 1 << (qpc[9] >> 3 & 0xf), rqShift: 4 + uint32(qpc[9]&7), sqBlocks: 1 << (qpc[10] >> 3 & 0xf)}
	switch qpc[172] & 7 {
	case regular:
	case noReceives:
		q.rqEntries = 0
	default: // a shared queue, which the model has none of by commands
		return o, 0, statusBadParam
	}
	if qpc[10]&noSends != 0 {
		q.sqBlocks = 0
	}
	switch {
	case !ok, qpc[2]>>3&3 != migrated, q.uar == nil, q.rqEntries > maxQPWR, q.sqBlocks > maxQPWR, q.rqShift > 9:
		return o, 0, statusBadParam
	case qpc[208]&dbrValid == 0, in[268]&memoryValid == 0:
		return o, 0, statusBadParam
	}
	var have [3]bool
	q.pd, have[0] = find(c, func(p *pd) bool { return p.number == be.Uint32(qpc[4:])&low24 })
	q.sendCQ, have[1] = find(c, func(x *completionQueue) bool { return x.number == be.Uint32(qpc[124:])&low24 })
	q.recvCQ, have[2] = find(c, func(x *completionQueue) bool { return x.number == be.Uint32(qpc[156:])&low24 })
	if have != [3]bool{true, true, true} {
		return o, 0, statusBadResource
	}
	mem, buf, ok := c.place(be.Uint32(in[264:]), be.Uint64(in[256:]), uint64(q.rqEntries)<<q.rqShift+64*uint64(q.sqBlocks), false)
	dbr, record, ok2 := c.place(be.Uint32(qpc[228:]), be.Uint64(qpc[160:]), 8, false)
	if !ok || !ok2 || buf%64 != 0 || record%8 != 0 {
		return o, 0, statusBadResource
	}
	q.buf, q.record = buf, record
	c.device.join(q)
	return newDevxQueue(q, mem, dbr), q.number, statusOK
}

// devxModify is DEVX_OBJ_MODIFY: the steps of a QP's life.
func (c *context) devxModify(r *request) unix.Errno {
	in := r.data(0x1001)
	o, e := get[devxQueue](c, r.handle(0x1000))
	q, ok := o.object.(*queuePair)
	if e != 0 || !ok || len(in) < 16 || be.Uint32(in[8:])&low24 != q.number {
		return unix.EINVAL // the kernel compares the number in the command with the object's
	}
	s := q.command(in)
	out := make([]byte, max(16, r.room(0x1002)))
	out[0] = byte(s)
	r.out(0x1002, out)
	if s != statusOK {
		return unix.EREMOTEIO
	}
	return 0
}

// command takes a QP a step further.
func (q *queuePair) command(in []byte) status {
	switch op := be.Uint16(in); op {
	case op2RST:
		q.enter(stateReset)
	case op2ERR:
		q.enter(stateError)
	case opRST2INIT, opINIT2RTR, opRTR2RTS:
		from := map[uint16]qpState{opRST2INIT: stateReset, opINIT2RTR: stateInit, opRTR2RTS: stateRTR}[op]
		if len(in) < 272 {
			return statusBadLength
		}
		if q.state != from {
			return statusBadState
		}
		if s := q.set(from, in[24:256]); s != statusOK {
			return s
		}
		q.enter(from + 1)
	default:
		return statusBadParam
	}
	return statusOK
}

// set takes from a qpc what a QP must know to leave a state.
func (q *queuePair) set(leaves qpState, qpc []byte) status {
	path := qpc[24:68]
	if path[37] != portNumber && leaves != stateRTR { // a port once chosen stays
		return statusBadParam
	}
	a := &q.attrs
	switch leaves {
	case stateReset:
		rights := localWrite
		for bit, right := range map[byte]access{1 << 7: remoteRead, 1 << 6: remoteWrite, 1 << 5: remoteAtomic} {
			if qpc[146]&bit != 0 {
				rights |= right
			}
		}
		le.PutUint32(a[88:], uint32(rights))
		le.PutUint32(a[72:], be.Uint32(qpc[168:]))
		a[104] = portNumber
		if be.Uint16(path[2:]) != 0 { // P_Key index
			return statusBadParam
		}
	case stateInit:
		mtu, logMessage, sport := qpc[8]>>5, qpc[8]&0x1f, be.Uint16(path[34:])
		if q.kind == qptUD {
			break
		}
		if mtu < 1 || mtu > mtu4096 || logMessage > 30 || 1<<logMessage < 128<<mtu || path[9] != 0 || path[11] == 0 {
			return statusBadParam
		}
		if sport != 0 && sport < 0xc000 { // r_roce_min_src_udp_port
			return statusBadParam
		}
		q.sport = sport
		copy(a[:16], path[16:32])
		le.PutUint32(a[16:], be.Uint32(path[12:])&0xfffff)
		a[30], a[98], a[103] = 1, mtu, qpc[148]&0x1f
		le.PutUint32(a[84:], be.Uint32(qpc[20:])&low24)
		le.PutUint32(a[76:], be.Uint32(qpc[148:])&low24)
	case stateRTR:
		le.PutUint32(a[80:], be.Uint32(qpc[120:])&low24)
		a[101], a[105], a[106], a[107] = 1<<(qpc[113]>>5), path[8]>>3, qpc[113]&7, qpc[114]>>5
	}
	return statusOK
}
