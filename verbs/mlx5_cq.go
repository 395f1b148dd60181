// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"math"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/verbs/internal/addr"
	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

type mlx5CQ struct {
	mlx5Memory
	q    *CQ
	page *mlx5Page
	ring *mlx5.CompletionQueue
	in   uapi.Mlx5CreateCq
	resp uapi.Mlx5CreateCqResp
}

func (p *mlx5Provider) cq(q *CQ, entries *uint32) (cqPart, error) {
	if *entries < 1 || *entries > p.ctx.attr.MaxCQE {
		return nil, unix.EINVAL
	}
	n := roundUp(*entries + 1)
	c := &mlx5CQ{q: q}
	var err error
	if c.page, err = p.doorbells(); err != nil {
		return nil, err
	}
	if c.mlx5Memory, err = p.allocate(int(n) * mlx5.CompletionSize); err != nil {
		return nil, err
	}
	*entries = n - 1
	c.ring = mlx5.NewCompletionQueue(c.mem[:int(n)*mlx5.CompletionSize], uint32(bits.Len32(n)-1), c.record.Record, c.page.page)
	return c, nil
}

func (c *mlx5CQ) fill(call *uapi.Call) {
	c.in = uapi.Mlx5CreateCq{BufAddr: addr.Of(c.mem), DbAddr: c.record.addr, CqeSize: mlx5.CompletionSize}
	if c.page.index <= math.MaxUint16 {
		c.in.Flags, c.in.UarPageIndex = uapi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(c.page.index)
	} else { // Linux 6.11 and later; others refuse the call for want of a page
		uapi.PutIn(call, uapi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, &c.page.index)
	}
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &c.in)
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &c.resp)
}

func (c *mlx5CQ) made() error {
	c.ring.SetNumber(c.resp.Cqn)
	return nil
}

// resize gives the device other memory, and takes along what it had written before.
func (c *mlx5CQ) resize(entries uint32) (uint32, error) {
	n := roundUp(entries + 1)
	switch {
	case n == c.ring.Size():
		return n - 1, nil
	case c.ring.Waiting() >= n:
		return 0, unix.EINVAL
	}
	size := int(n) * mlx5.CompletionSize
	mem, err := AllocBuffer((size + mlx5PageSize - 1) &^ (mlx5PageSize - 1))
	if err != nil {
		return 0, err
	}
	mlx5.PrepareCompletions(mem[:size])
	var out uapi.ResizeCqResp
	call := c.q.resizeCall(n-1, &out)
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &uapi.Mlx5ResizeCq{BufAddr: addr.Of(mem), CqeSize: mlx5.CompletionSize})
	if err := c.p.ctx.do(call); err != nil {
		return 0, errors.Join(err, FreeBuffer(mem))
	}
	if !c.ring.Move(mem[:size], uint32(bits.Len32(n)-1)) {
		c.q.overflowed.Store(true) // the device had no room to say where it has gone on
	}
	old := c.mem
	c.mem = mem
	return n - 1, FreeBuffer(old)
}

func (c *mlx5CQ) arm(solicitedOnly bool) error {
	c.ring.Arm(solicitedOnly)
	return nil
}

// poll moves completions into dst, and when they came into times, unless that is nil. full tells that the queue was full: a completion
// may have been lost.
func (c *mlx5CQ) poll(dst []WC, times []uint64) (n int, full bool) {
	taken := false
	for n < len(dst) {
		e := c.ring.Next()
		if e == nil {
			break
		}
		taken = true
		// A queue pair takes its completions along when it goes, so that this one's is there.
		q := c.p.user(e.User())
		if q == nil || q.faulted(e) {
			continue
		}
		dst[n] = WC{QPN: q.q.num}
		q.complete(e, &dst[n])
		if times != nil {
			times[n] = e.Timestamp()
		}
		n++
	}
	if taken {
		return n, c.ring.Publish()
	}
	return n, c.ring.Full()
}

// mlx5Syndromes are what the device says of an error (MLX5_CQE_SYNDROME_*).
var mlx5Syndromes = map[uint8]WCStatus{
	0x01: WCLocalLengthErr, 0x02: WCLocalQPOpErr, 0x04: WCLocalProtErr, 0x05: WCFlushErr, 0x06: WCMWBindErr, 0x10: WCBadRespErr,
	0x11: WCLocalAccessErr, 0x12: WCRemoteInvalReqErr, 0x13: WCRemoteAccessErr, 0x14: WCRemoteOpErr, 0x15: WCRetryExceededErr,
	0x16: WCRNRRetryExceeded, 0x22: WCRemoteAborted,
}

// complete fills a completion of the queue pair in.
func (m *mlx5QP) complete(e mlx5.Completion, wc *WC) {
	op := e.Opcode()
	if op == mlx5.SendError || op == mlx5.RecvError {
		status, known := mlx5Syndromes[e.Syndrome()]
		if !known {
			status = WCGeneralErr
		}
		wc.Status, wc.VendorErr = status, uint32(e.Vendor())
	}
	if op == mlx5.Done || op == mlx5.SendError {
		var kind mlx5.Kind
		wc.WRID, kind = m.sq.Complete(e.Counter())
		if op == mlx5.Done {
			sendCompleted(e, kind, wc)
		}
		return
	}
	wc.WRID = m.received(e)
	if op == mlx5.RecvError {
		return
	}
	wc.Opcode, wc.ByteLen, wc.SrcQP, wc.SL = WCRecv, e.Bytes(), e.SrcQP(), e.SL()
	switch op {
	case mlx5.RecvWrite:
		wc.Opcode, wc.Flags, wc.Imm = WCRecvRDMAWrite, WCWithImm, e.Imm()
	case mlx5.RecvImm:
		wc.Flags, wc.Imm = WCWithImm, e.Imm()
	case mlx5.RecvInval:
		wc.Flags, wc.Imm = WCWithInv, e.Imm()
	}
	if e.WithGRH() {
		wc.Flags |= WCWithGRH
	}
}

// faulted tells of a receive whose memory was paged out. It is posted again, and nobody hears of it (mlx5_complete_odp_fault).
func (m *mlx5QP) faulted(e mlx5.Completion) bool {
	if m.srq == nil || !e.PageFault() {
		return false
	}
	m.srq.s.mu.Lock()
	defer m.srq.s.mu.Unlock()
	m.srq.ring.Repost(e.Counter())
	return true
}

// sendCompleted fills in what a send request's opcode and kind tell.
func sendCompleted(e mlx5.Completion, kind mlx5.Kind, wc *WC) {
	switch e.SendOpcode() {
	case mlx5.OpWrite, mlx5.OpWriteImm:
		wc.Opcode = WCRDMAWrite
	case mlx5.OpRead:
		wc.Opcode, wc.ByteLen = WCRDMARead, e.Bytes()
	case mlx5.OpCompareSwap:
		wc.Opcode, wc.ByteLen = WCCompSwap, 8
	case mlx5.OpFetchAdd:
		wc.Opcode, wc.ByteLen = WCFetchAdd, 8
	case mlx5.OpUMR:
		switch kind {
		case mlx5.Binding:
			wc.Opcode = WCBindMW
		case mlx5.Invalidation:
			wc.Opcode = WCLocalInv
		default:
			wc.Opcode = WCDriver1
		}
	}
}

// received frees the receive request of a completion and returns its id.
func (m *mlx5QP) received(e mlx5.Completion) uint64 {
	if m.srq != nil {
		return m.srq.complete(e.Counter())
	}
	if m.rq == nil {
		return 0 // the device made it up
	}
	if m.outOfOrder {
		return m.rq.CompleteAt(e.Counter())
	}
	return m.rq.Complete()
}
