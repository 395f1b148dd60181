// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// postSend fills requests in and has the kernel take them with one system call.
func (r *rxeQP) postSend(wrs []SendWR) (int, error) {
	n, weight, err := r.fillSends(wrs)
	if n == 0 {
		return 0, err
	}
	r.sq.Publish()
	if rung := r.ring(weight); rung != nil {
		return n, rung
	}
	return n, err
}

// maxMessage is the length of the longest message that RoCE knows. rxe has 32 bits for what several pieces add up to, and sends what is
// left of it; adapters refuse longer ones by themselves, but for a piece of that length (mlx5_post.go).
const maxMessage = 1 << 31

// isPlainWrite tells the request that nearly all messages are, and with which nothing can be wrong: an
// RDMA write of one piece of memory.
func (wr *SendWR) isPlainWrite() bool {
	return wr.Opcode <= OpRDMAWriteWithImm && wr.Flags&SendInline == 0 && wr.SG == nil && wr.Local.Length > 0 && wr.Local.Length <= maxMessage
}

// fillSends fills in as many requests as it can, and returns their number and what they weigh: see briefWeight.
func (r *rxeQP) fillSends(wrs []SendWR) (n, weight int, err error) {
	for i := 0; ; i++ {
		plain, w := r.fillPlain(wrs[i:])
		i, weight = i+plain, weight+w
		if i == len(wrs) {
			return i, weight, nil
		}
		wr := &wrs[i]
		bad := r.q.checkSend(wr)
		if bad == "" && wr.Opcode != OpLocalInv && wr.Opcode != OpBindMW && wr.size() > maxMessage {
			bad = "a message has at most 2 GiB"
		}
		if bad != "" {
			return i, weight, &PostError{Index: i, Err: bad}
		}
		e, ok := r.sq.NextSend()
		if !ok {
			return i, weight, ErrQueueFull
		}
		weight += max(wr.size(), largestMTU)
		e.WrId, e.Opcode, e.SendFlags, e.Ex = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags), fromNetwork(wr.Imm)
		e.Ssn = r.ssn
		r.ssn++
		r.fillSend(e, wr)
	}
}

// fillPlain fills in the plain writes with which wrs begins, as far as there is room, and returns their
// number. What is decided for each batch here is decided for each request in fillSends.
func (r *rxeQP) fillPlain(wrs []SendWR) (n, weight int) {
	if r.q.typ == UD {
		return 0, 0
	}
	wrs = wrs[:r.sq.Room(len(wrs))]
	first := r.ssn
	for i := range wrs {
		wr := &wrs[i]
		if !wr.isPlainWrite() {
			break
		}
		w := r.sq.SendAt(i)
		w.WrId, w.Opcode, w.SendFlags, w.Ex = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags), fromNetwork(wr.Imm)
		w.SetWrite(wr.RemoteAddr, wr.RKey, first+uint32(i))
		w.SetSGE(wr.Local.Addr, wr.Local.Length, wr.Local.LKey)
		weight += max(int(wr.Local.Length), largestMTU)
		n = i + 1
	}
	r.ssn = first + uint32(n)
	r.sq.Take(n)
	return n, weight
}

// fillSend fills in what depends on the operation.
func (r *rxeQP) fillSend(w *rxe.SendWQE, wr *SendWR) {
	switch wr.Opcode {
	case OpRDMAWrite, OpRDMAWriteWithImm, OpRDMARead:
		w.SetRDMA(wr.RemoteAddr, wr.RKey)
	case OpCompareSwap, OpFetchAdd:
		w.SetAtomic(wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap)
	case OpSend, OpSendWithImm:
		if r.q.typ == UD {
			w.SetUD(wr.UD.AH.part.(*rxeAH).resp.AhNum, wr.UD.QPN, wr.UD.QKey, 0)
		}
	case OpSendWithInv:
		w.Ex = wr.Imm
	case OpLocalInv:
		w.Ex = wr.Imm
		return
	case OpFlush:
		w.SetFlush(wr.RemoteAddr, wr.RKey, wr.Flush.Length, uint8(wr.Flush.To), wr.Flush.Region)
		return
	case OpAtomicWrite:
		w.SetAtomicWrite(wr.RemoteAddr, wr.RKey, wr.Swap)
		return
	case OpBindMW:
		b := wr.Bind
		w.SetBind(b.Addr, b.Length, b.MRLKey, b.post(), b.NewRKey, uint32(b.Access))
		return
	}
	if wr.Flags&SendInline != 0 {
		w.SetInline(wr.Inline)
		return
	}
	addPieces(&w.Dma, &wr.Local, wr.SG)
}

// addPieces adds a request's pieces of memory: of sg, or the one of local when that is nil.
func addPieces(d *uapi.RxeDmaInfo, local *SGE, sg []SGE) {
	if sg == nil {
		if local.Length > 0 {
			rxe.AddSGE(d, local.Addr, local.Length, local.LKey)
		}
		return
	}
	for i := range sg {
		rxe.AddSGE(d, sg[i].Addr, sg[i].Length, sg[i].LKey)
	}
}

// A doorbell is brief when the kernel is back from it in some microseconds, so that other goroutines may
// wait for the processor meanwhile. Up to Linux 6.3 the doorbell sends the packets, one to two microseconds
// each. A request is as many packets as its bytes make of the largest path MTU, and one at least: what it
// weighs, in bytes.
const (
	briefWeight = 64 * largestMTU
	largestMTU  = 4096
)

// ring has the kernel take the requests that were published, of that weight.
func (r *rxeQP) ring(weight int) error {
	r.q.ctx.open.RLock()
	defer r.q.ctx.open.RUnlock()
	if r.q.ctx.closed {
		return ErrClosed
	}
	var e unix.Errno
	if weight <= briefWeight {
		e = r.doorbell.RingBriefly()
	} else {
		e = r.doorbell.Ring()
	}
	if e != 0 {
		return wrap("post send", r.q.String(), r.q.ctx.judge(e))
	}
	return nil
}

// rxePostRecv is shared by QPs and SRQs.
func rxePostRecv(ring *rxe.WorkQueue, maxSGE int, wrs []RecvWR) (n int, err error) {
	for n = range wrs {
		wr := &wrs[n]
		if !wr.fits(maxSGE) {
			err = tooManyPieces(n, maxSGE)
			break
		}
		w, ok := ring.NextRecv()
		if !ok {
			err = ErrQueueFull
			break
		}
		w.WrId = wr.WRID
		addPieces(&w.Dma, &wr.Local, wr.SG)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		ring.Publish()
	}
	return n, err
}
