// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
	"golang.org/x/sys/unix"
)

// PostSend posts a batch of send requests with one system call and returns how many the queue
// took. With ErrQueueFull the rest is to be posted again after the CQ was polled; with a
// *PostError the request at that index is wrong. What was taken is on its way in both cases. The
// QP must be in state RTS or later. PostSend does not allocate.
//
// Requests without SendSignaled on a QP without SignalAll yield no completion, but their place in
// the queue is freed when they are done all the same.
func (q *QP) PostSend(wrs []SendWR) (int, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.gone {
		return 0, ErrClosed
	}
	if s := q.State(); s < RTS {
		return 0, stateError(q, "post send", s)
	}
	n, err := q.fillSends(wrs)
	if n == 0 {
		return 0, err
	}
	q.sq.Publish()
	if rung := q.ring(wrs[:n]); rung != nil {
		return n, rung
	}
	return n, err
}

func (q *QP) fillSends(wrs []SendWR) (int, error) {
	for i := 0; ; i++ {
		i += q.fillPlain(wrs[i:])
		if i == len(wrs) {
			return i, nil
		}
		wr := &wrs[i]
		if bad := q.checkSend(wr); bad != "" {
			return i, &PostError{Index: i, Err: bad}
		}
		w, ok := q.sq.NextSend()
		if !ok {
			return i, ErrQueueFull
		}
		w.WrId, w.Opcode, w.SendFlags, w.Ex = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags), fromNetwork(wr.Imm)
		w.Ssn = q.ssn
		q.ssn++
		q.fillSend(w, wr)
	}
}

// fillPlain fills in the plain writes with which wrs begins, as far as there is room, and returns their
// number. What is decided for each batch here is decided for each request in fillSends.
func (q *QP) fillPlain(wrs []SendWR) int {
	if q.typ == UD {
		return 0
	}
	wrs = wrs[:q.sq.Room(len(wrs))]
	first, n := q.ssn, 0
	for i := range wrs {
		wr := &wrs[i]
		if !wr.isPlainWrite() {
			break
		}
		w := q.sq.SendAt(i)
		w.WrId, w.Opcode, w.SendFlags, w.Ex = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags), fromNetwork(wr.Imm)
		w.SetWrite(wr.RemoteAddr, wr.RKey, first+uint32(i))
		w.SetSGE(wr.Local.Addr, wr.Local.Length, wr.Local.LKey)
		n = i + 1
	}
	q.ssn = first + uint32(n)
	q.sq.Take(n)
	return n
}

// isPlainWrite tells the request that nearly all messages are, and with which nothing can be wrong: an
// RDMA write of one piece of memory.
func (wr *SendWR) isPlainWrite() bool {
	return wr.Opcode <= OpRDMAWriteWithImm && wr.Flags&SendInline == 0 && wr.SG == nil && wr.Local.Length > 0
}

// checkSend finds what would be wrong with a request before it takes a place in the queue.
func (q *QP) checkSend(wr *SendWR) string {
	switch {
	case len(wr.SG) > q.cap.MaxSendSGE:
		return "more pieces than the QP's MaxSendSGE"
	case wr.Flags&SendInline != 0 && len(wr.Inline) > q.cap.MaxInline:
		return "more inline data than the QP's MaxInline"
	case q.typ == UD && (wr.Opcode != OpSend && wr.Opcode != OpSendWithImm):
		return "a UD QP can only send"
	case q.typ == UD && wr.UD.AH == nil:
		return "a datagram needs an address handle: set UD.AH"
	case q.typ == UC && wr.Opcode >= OpRDMARead && wr.Opcode <= OpLocalInv:
		return "a UC QP has no reads, atomics and invalidations: use RC"
	case wr.Opcode > OpBindMW:
		return "unknown opcode"
	case wr.Opcode == OpBindMW && wr.Bind == nil:
		return "no binding: make the request with BindWR"
	}
	return ""
}

// fillSend fills in what depends on the operation.
func (q *QP) fillSend(w *rxe.SendWQE, wr *SendWR) {
	switch wr.Opcode {
	case OpRDMAWrite, OpRDMAWriteWithImm, OpRDMARead:
		w.SetRDMA(wr.RemoteAddr, wr.RKey)
	case OpCompareSwap, OpFetchAdd:
		w.SetAtomic(wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap)
	case OpSend, OpSendWithImm:
		if q.typ == UD {
			w.SetUD(wr.UD.AH.number, wr.UD.QPN, wr.UD.QKey, 0)
		}
	case OpLocalInv:
		w.Ex = wr.Imm
		return
	case OpBindMW:
		b := wr.Bind
		w.SetBind(b.Addr, b.Length, b.MRLKey, b.OldRKey, b.NewRKey, uint32(b.Access))
		return
	}
	if wr.Flags&SendInline != 0 {
		w.SetInline(wr.Inline)
		return
	}
	if wr.SG == nil {
		if wr.Local.Length > 0 {
			w.AddSGE(wr.Local.Addr, wr.Local.Length, wr.Local.LKey)
		}
		return
	}
	for _, s := range wr.SG {
		w.AddSGE(s.Addr, s.Length, s.LKey)
	}
}

// A doorbell is brief when the kernel is back from it in some microseconds, so that other goroutines may
// wait for the processor meanwhile. On rxe, up to Linux 6.3, the doorbell sends the packets, one to two
// microseconds each. A request is as many packets as its bytes make of the largest path MTU, and one at
// least.
const (
	briefBytes = 64 * largestMTU
	largestMTU = 4096
)

// brief tells whether the doorbell of these requests is.
func brief(wrs []SendWR) bool {
	left := briefBytes
	for i := range wrs {
		if left -= max(wrs[i].size(), largestMTU); left < 0 {
			return false
		}
	}
	return true
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

// ring has the kernel take the requests that were published.
func (q *QP) ring(wrs []SendWR) error {
	q.ctx.open.RLock()
	defer q.ctx.open.RUnlock()
	if q.ctx.closed {
		return ErrClosed
	}
	var e unix.Errno
	if brief(wrs) {
		e = q.doorbell.RingBriefly()
	} else {
		e = q.doorbell.Ring()
	}
	if e != 0 {
		return wrap("post send", q.String(), q.ctx.judge(e))
	}
	return nil
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
		return 0, &Error{Verb: "post receive", Object: q.String(), Err: errUsesSRQ}
	case q.State() == Reset:
		return 0, stateError(q, "post receive", Reset)
	}
	return postRecv(&q.rq, q.cap.MaxRecvSGE, wrs)
}

// postRecv is shared by QPs and SRQs.
func postRecv(ring *rxe.WorkQueue, maxSGE int, wrs []RecvWR) (n int, err error) {
	for n = range wrs {
		wr := &wrs[n]
		if len(wr.SG) > maxSGE || wr.SG == nil && wr.Local.Length > 0 && maxSGE == 0 {
			err = &PostError{Index: n, Err: fmt.Sprintf("more pieces than the queue's %d", maxSGE)}
			break
		}
		w, ok := ring.NextRecv()
		if !ok {
			err = ErrQueueFull
			break
		}
		fillRecv(w, wr)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		ring.Publish()
	}
	return n, err
}

func fillRecv(w rxe.RecvWQE, wr *RecvWR) {
	w.WrId = wr.WRID
	if wr.SG == nil {
		if wr.Local.Length > 0 {
			w.AddSGE(wr.Local.Addr, wr.Local.Length, wr.Local.LKey)
		}
		return
	}
	for _, s := range wr.SG {
		w.AddSGE(s.Addr, s.Length, s.LKey)
	}
}
