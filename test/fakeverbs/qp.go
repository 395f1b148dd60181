// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/roce"
)

// Transport services, enum ib_uverbs_qp_type.
const (
	qptRC = 2
	qptUC = 3
	qptUD = 4
)

// qpState is enum ib_qp_state.
type qpState uint8

const (
	stateReset qpState = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateError
)

// queuePair is a QP.
type queuePair struct {
	ctx              *context
	number           uint32
	userHandle       uint64
	kind             uint32
	pd               *pd
	sendCQ, recvCQ   *completionQueue
	srq              *sharedQueue
	signalAll        bool
	caps             []byte // struct ib_uverbs_qp_cap, as asked for and then as made
	state            qpState
	attrs            [112]byte // struct ib_uverbs_modify_qp, what has been set so far
	sqDone, sqPosted uint16

	// Of mlx5: the receive queue lies before the send queue in one buffer of the program.
	uar         *uar
	buf, record uint64
	userIndex   uint32
	sqBlocks    uint32 // of 64 bytes, a power of two
	rqEntries   uint32 // a power of two, or none
	rqShift     uint32
	rqTaken     uint16
	scatterCQE  bool
	byCommand   bool   // made by a firmware command: the kernel tells nobody of its events
	sport       uint16 // the UDP source port that a firmware command gave, or 0
	// Of rxe; rq is nil with a shared queue.
	sq, rq *ring
	// outOfOrder has the device take receive requests in another order than they were posted in: every other time the second oldest, and
	// then the oldest, which skipped is.
	outOfOrder bool
	skipped    *uint16

	// What a request of the send queue waits for: another attempt at a time, and when it is given up.
	retryAt, giveUpAt time.Time
	rnrLeft           uint8
	waiting           bool

	// Of a port on the network.
	nextPSN, expectedPSN roce.PSN
	inbound              inbound
}

// Flags of struct mlx5_ib_create_qp.
const (
	qpScatterCQE = 1 << 1
	qpUARIndex   = 1 << 10
)

// Flags of CREATE_QP.
const qpSignalAll = 1 << 12

func (c *context) createQP(r *request) unix.Errno {
	d := c.device
	q := &queuePair{ctx: c, userHandle: r.u64(7), kind: uint32(r.u64(9)), caps: r.in(8, 20), signalAll: r.u32(10)&qpSignalAll != 0}
	if q.kind != qptRC && q.kind != qptUC && q.kind != qptUD || r.u32(10)&^qpSignalAll != 0 {
		return unix.EOPNOTSUPP
	}
	var e unix.Errno
	if q.pd, e = get[*pd](c, r.handle(2)); e != 0 {
		return e
	}
	if q.sendCQ, e = get[*completionQueue](c, r.handle(4)); e != 0 {
		return e
	}
	if q.recvCQ, e = get[*completionQueue](c, r.handle(5)); e != 0 {
		return e
	}
	if r.find(3) != nil {
		if q.srq, e = get[*sharedQueue](c, r.handle(3)); e != 0 {
			return e
		}
	}
	if e = d.driver.qp(q, r); e != 0 {
		return e
	}
	d.join(q)
	r.made(0, c.add(q))
	r.out(13, q.caps)
	r.out32(14, q.number)
	return 0
}

func (mlx5) qp(q *queuePair, r *request) unix.Errno {
	c, hw := q.ctx, r.in(uhwIn, 56)
	flags := le.Uint32(hw[28:])
	q.buf, q.record, q.userIndex, q.scatterCQE = le.Uint64(hw), le.Uint64(hw[8:]), le.Uint32(hw[32:]), flags&qpScatterCQE != 0
	q.sqBlocks, q.rqEntries, q.rqShift = le.Uint32(hw[16:]), le.Uint32(hw[20:]), le.Uint32(hw[24:])
	switch {
	case flags&^(qpScatterCQE|qpUARIndex) != 0, flags&qpUARIndex == 0:
		return unix.EOPNOTSUPP
	case q.sqBlocks&(q.sqBlocks-1) != 0 || q.rqEntries&(q.rqEntries-1) != 0 || q.sqBlocks > maxQPWR || q.rqEntries > maxQPWR:
		return unix.EINVAL
	case q.rqEntries != 0 && (q.rqShift < 4 || q.rqShift > 9), q.buf%4096 != 0, q.record%8 != 0, q.userIndex > 0xffffff:
		return unix.EINVAL
	case le.Uint32(q.caps) > q.sqBlocks:
		return unix.EINVAL
	}
	if q.uar = c.uars[le.Uint32(hw[36:])]; q.uar == nil {
		return unix.EINVAL
	}
	size := uint64(q.rqEntries)<<q.rqShift + 64*uint64(q.sqBlocks)
	if size == 0 || c.mem.Read(q.buf, make([]byte, 1)) != nil || c.mem.Read(q.buf+size-1, make([]byte, 1)) != nil || c.mem.Read(q.record, make([]byte, 8)) != nil {
		return unix.EFAULT
	}
	r.out(uhwOut, make([]byte, 40))
	return 0
}

// join makes a new QP one of the device's.
func (d *Device) join(q *queuePair) {
	q.number = d.number()
	d.qps[q.number] = q
	d.listed = false
	q.use(1)
}

// use counts the QP among the users of what it is made of.
func (q *queuePair) use(n int) {
	q.pd.users += n
	q.sendCQ.users += n
	q.recvCQ.users += n
	if q.uar != nil {
		q.uar.users += n
	}
	if q.srq != nil {
		q.srq.users += n
	}
}

func (q *queuePair) destroy(d *Device) unix.Errno {
	q.use(-1)
	q.sq.free()
	q.rq.free()
	delete(d.qps, q.number)
	d.listed = false
	return 0
}

func (c *context) destroyQP(r *request) unix.Errno {
	e := remove[*queuePair](c, r.handle(0))
	r.out32(1, 0)
	return e
}

// Attribute masks, enum ib_qp_attr_mask.
const (
	maskState       = 1 << 0
	maskCurState    = 1 << 1
	maskAccess      = 1 << 3
	maskPKey        = 1 << 4
	maskPort        = 1 << 5
	maskQKey        = 1 << 6
	maskAV          = 1 << 7
	maskPathMTU     = 1 << 8
	maskTimeout     = 1 << 9
	maskRetry       = 1 << 10
	maskRNRRetry    = 1 << 11
	maskRQPSN       = 1 << 12
	maskMaxReads    = 1 << 13
	maskMinRNR      = 1 << 15
	maskSQPSN       = 1 << 16
	maskMaxDstReads = 1 << 17
	maskDestQPN     = 1 << 20
)

// required are the attributes without which a step is refused (qp_state_table of the kernel).
var required = map[[2]qpState]map[uint32]uint32{
	{stateReset, stateInit}: {qptRC: maskPKey | maskPort | maskAccess, qptUC: maskPKey | maskPort | maskAccess, qptUD: maskPKey | maskPort | maskQKey},
	{stateInit, stateInit}:  {},
	{stateInit, stateRTR}: {qptRC: maskAV | maskPathMTU | maskDestQPN | maskRQPSN | maskMaxDstReads | maskMinRNR,
		qptUC: maskAV | maskPathMTU | maskDestQPN | maskRQPSN},
	{stateRTR, stateRTS}: {qptRC: maskTimeout | maskRetry | maskRNRRetry | maskSQPSN | maskMaxReads, qptUC: maskSQPSN, qptUD: maskSQPSN},
	{stateRTS, stateRTS}: {},
}

// fields are the bytes of struct ib_uverbs_modify_qp that belong to an attribute.
var fields = map[uint32][2]int{
	maskAV: {0, 32}, maskQKey: {72, 76}, maskRQPSN: {76, 80}, maskSQPSN: {80, 84}, maskDestQPN: {84, 88}, maskAccess: {88, 92}, maskPKey: {92, 94},
	maskPathMTU: {98, 99}, maskMaxReads: {101, 102}, maskMaxDstReads: {102, 103}, maskMinRNR: {103, 104}, maskPort: {104, 105}, maskTimeout: {105, 106},
	maskRetry: {106, 107}, maskRNRRetry: {107, 108},
}

func (c *context) modifyQP(r *request) unix.Errno {
	in := r.data(coreIn)
	if len(in) < 112 {
		return unix.EINVAL
	}
	q, e := get[*queuePair](c, le.Uint32(in[64:]))
	if e != 0 {
		return e
	}
	mask := le.Uint32(in[68:])
	to := q.state
	if mask&maskState != 0 {
		to = qpState(in[96])
	}
	if mask&maskCurState != 0 && qpState(in[97]) != q.state {
		return unix.EINVAL
	}
	if to != stateReset && to != stateError {
		need, legal := required[[2]qpState{q.state, to}]
		if !legal || need[q.kind]&^mask != 0 {
			return unix.EINVAL
		}
	}
	if mask&maskPort != 0 && in[104] != portNumber || mask&maskPKey != 0 && le.Uint16(in[92:]) != 0 ||
		mask&maskPathMTU != 0 && (in[98] < 1 || in[98] > mtu4096) || mask&maskAV != 0 && (in[28+2] == 0 || in[24] != 0) {
		return unix.EINVAL
	}
	if e := q.setOrder(r, to); e != 0 {
		return e
	}
	for m, f := range fields {
		if mask&m != 0 {
			copy(q.attrs[f[0]:f[1]], in[f[0]:f[1]])
		}
	}
	q.enter(to)
	r.out(uhwOut, make([]byte, 16))
	return 0
}

// enter changes the state; in RESET the queues begin anew.
func (q *queuePair) enter(s qpState) {
	q.state = s
	q.waiting = false
	if s == stateReset {
		q.attrs = [112]byte{}
		q.ctx.device.driver.reset(q)
	}
	switch s {
	case stateRTR:
		q.expectedPSN, q.inbound = roce.PSN(le.Uint32(q.attrs[76:])&roce.PSNMask), inbound{}
	case stateRTS:
		q.nextPSN = roce.PSN(le.Uint32(q.attrs[80:]) & roce.PSNMask)
	}
}

// What an attribute was set to.
func (q *queuePair) destGID() [16]byte { return [16]byte(q.attrs[:16]) }
func (q *queuePair) destQPN() uint32   { return le.Uint32(q.attrs[84:]) }
func (q *queuePair) pathMTU() int      { return 128 << q.attrs[98] }
func (q *queuePair) qkey() uint32      { return le.Uint32(q.attrs[72:]) }
func (q *queuePair) rights() access    { return access(le.Uint32(q.attrs[88:])) }
func (q *queuePair) timeout() uint8    { return q.attrs[105] }
func (q *queuePair) retries() uint8    { return q.attrs[106] }
func (q *queuePair) rnrRetries() uint8 { return q.attrs[107] }

func (c *context) queryQP(r *request) unix.Errno {
	q, e := get[*queuePair](c, le.Uint32(r.in(coreIn, 16)[8:]))
	if e != 0 {
		return e
	}
	b := make([]byte, 128)
	copy(b, q.attrs[:32])
	copy(b[64:84], c.device.driver.caps(q))
	copy(b[84:104], q.attrs[72:92]) // qkey … qp_access_flags
	copy(b[104:108], q.attrs[92:96])
	b[108], b[109] = byte(q.state), byte(q.state)
	b[110] = q.attrs[98]
	b[113], b[114], b[115], b[116], b[117], b[118], b[119] = q.attrs[101], q.attrs[102], q.attrs[103], q.attrs[104], q.attrs[105], q.attrs[106], q.attrs[107]
	if q.signalAll {
		b[122] = 1
	}
	r.out(coreOut, b)
	return 0
}

// caps: the kernel knows a program's receive queue only; its library adds the rest.
func (mlx5) caps(q *queuePair) []byte {
	b := make([]byte, 20)
	le.PutUint32(b[4:], q.rqEntries)
	if q.rqEntries > 0 {
		le.PutUint32(b[12:], 1<<(q.rqShift-4))
	}
	return b
}

func (mlx5) taken(*queuePair) {}

func (mlx5) reset(q *queuePair) {
	q.rqTaken, q.sqDone, q.sqPosted = 0, 0, 0
	q.outOfOrder, q.skipped = false, nil
}
