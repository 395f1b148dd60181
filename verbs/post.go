// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
)

// PostSend posts a batch of send requests with one system call and returns how many the queue
// took. With ErrQueueFull the rest is to be posted again after the CQ was polled; with a
// *PostError the request at that index is wrong. What was taken is on its way in both cases. The
// QP must be in state RTS or later. PostSend does not allocate.
//
// Requests without SendSignaled on a QP without SignalAll yield no completion. On rxe their place in the queue is freed when they
// are done all the same; adapters free it when a later one's completion has been polled, so signal at least one in each queue full.
func (q *QP) PostSend(wrs []SendWR) (int, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.gone {
		return 0, ErrClosed
	}
	if s := q.State(); s < RTS {
		return 0, stateError(q, "post send", s)
	}
	switch p := q.part.(type) {
	case *rxeQP:
		return p.postSend(wrs)
	case *mlx5QP:
		return p.postSend(wrs)
	}
	return 0, ErrNoProvider
}

// checkSend finds what would be wrong with a request before it takes a place in the queue.
func (q *QP) checkSend(wr *SendWR) string {
	if wr.Flags&SendInline != 0 {
		if bad := q.checkInline(wr); bad != "" {
			return bad
		}
	}
	switch {
	case len(wr.SG) > q.cap.MaxSendSGE:
		return "more pieces than the QP's MaxSendSGE"
	case q.typ == UD && (wr.Opcode != OpSend && wr.Opcode != OpSendWithImm):
		return "a UD QP can only send"
	case q.typ == UD && wr.UD.AH == nil:
		return "a datagram needs an address handle: set UD.AH"
	case q.typ == UD && wr.UD.AH.ctx != q.ctx:
		return "the address handle belongs to another open device"
	case q.typ == UC && wr.Opcode >= OpRDMARead && wr.Opcode <= OpLocalInv:
		return "a UC QP has no reads, atomics and invalidations: use RC"
	case wr.Opcode == OpFlush || wr.Opcode == OpAtomicWrite:
		return q.checkFlush(wr)
	case wr.Opcode > OpSendWithInv:
		return "unknown opcode"
	case wr.Opcode == OpSendWithInv && q.typ != RC:
		return "only an RC QP can invalidate its peer's keys"
	case wr.Opcode == OpBindMW && wr.Bind == nil:
		return "no binding: make the request with BindWR"
	}
	return ""
}

// checkInline is checkSend for what requests with inline data have of their own.
func (q *QP) checkInline(wr *SendWR) string {
	switch {
	case wr.Opcode >= OpRDMARead && wr.Opcode <= OpFetchAdd:
		// Devices, and libibverbs with them, take the bytes for the place of the answer, whose key is none: the QP would be lost.
		return "a read or an atomic sends no data: leave SendInline out, and set Local to where its answer goes"
	case len(wr.Inline) > q.cap.MaxInline:
		return "more inline data than the QP's MaxInline"
	case wr.Inline == nil && (wr.Local.Length != 0 || len(wr.SG) != 0):
		// libibverbs takes inline data from the pieces: whoever is used to that would send nothing, and not know it.
		return "SendInline sends the bytes of Inline, which is nil, and not those of Local or SG: set Inline, or leave SendInline out"
	}
	return ""
}

// checkFlush is checkSend for the requests of annex A19, which few devices know.
func (q *QP) checkFlush(wr *SendWR) string {
	caps := q.ctx.attr.Caps
	switch {
	case q.typ != RC:
		return "only an RC QP can flush and write atomically"
	case wr.Opcode == OpAtomicWrite && caps&CapAtomicWrite == 0:
		return "this device has no atomic writes: rxe has them since Linux 6.2"
	case wr.Opcode == OpAtomicWrite:
		return ""
	case wr.Flush.To == 0 || wr.Flush.To&^(FlushGlobal|FlushPersistent) != 0:
		return "a flush needs FlushGlobal or FlushPersistent"
	case wr.Flush.To&FlushGlobal != 0 && caps&CapFlushGlobal == 0 || wr.Flush.To&FlushPersistent != 0 && caps&CapFlushPersistent == 0:
		return "this device has no such flush: rxe has them since Linux 6.2"
	}
	return ""
}

// size is the number of bytes that the request moves.
func (wr *SendWR) size() int {
	if wr.Flags&SendInline != 0 {
		return len(wr.Inline)
	}
	if wr.SG == nil {
		return int(wr.Local.Length)
	}
	n := 0
	for i := range wr.SG {
		n += int(wr.SG[i].Length)
	}
	return n
}

// PostRecv posts a batch of receive requests without any system call and returns how many the
// queue took: with ErrQueueFull, those that fit. It does not allocate. A QP takes receives from
// state INIT on; one with an SRQ takes none of its own.
func (q *QP) PostRecv(wrs []RecvWR) (int, error) {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	switch {
	case q.gone:
		return 0, ErrClosed
	case q.srq != nil:
		return 0, &Error{Op: "post receive", Object: q.String(), Err: errUsesSRQ}
	case q.State() == Reset:
		return 0, stateError(q, "post receive", Reset)
	}
	switch p := q.part.(type) {
	case *rxeQP:
		return rxePostRecv(&p.rq, q.cap.MaxRecvSGE, wrs)
	case *mlx5QP:
		return p.postRecv(wrs)
	}
	return 0, ErrNoProvider
}

// fits tells whether the request has no more than maxSGE pieces.
func (wr *RecvWR) fits(maxSGE int) bool {
	return len(wr.SG) <= maxSGE && (wr.SG != nil || wr.Local.Length == 0 || maxSGE > 0)
}

func tooManyPieces(index, maxSGE int) error {
	return &PostError{Index: index, Err: fmt.Sprintf("more pieces than the queue's %d", maxSGE)}
}
