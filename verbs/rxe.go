// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/verbs/internal/rxe"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// rxeProvider is Soft-RoCE's: its queues are the kernel's memory, mapped.
type rxeProvider struct{ ctx *Context }

func (*rxeProvider) context(*uapi.Call) {}
func (*rxeProvider) opened() error      { return nil }
func (*rxeProvider) close() error       { return nil }
func (*rxeProvider) pd(*PD, *uapi.Call) {}

func (p *rxeProvider) ah(*AH, *AHAttr) (part, error)           { return &rxeAH{}, nil }
func (p *rxeProvider) cq(q *CQ, _ *uint32) (cqPart, error)     { return &rxeCQ{q: q}, nil }
func (p *rxeProvider) srq(s *SRQ, _ *SRQAttr) (srqPart, error) { return &rxeSRQ{s: s}, nil }
func (p *rxeProvider) qp(q *QP, attr *QPInitAttr, _ *uapi.QpCap) (qpPart, error) {
	if attr.OutOfOrder {
		return nil, unix.EOPNOTSUPP
	}
	return &rxeQP{q: q}, nil
}

// rxeAH is an address handle; send requests refer to its number.
type rxeAH struct{ resp uapi.RxeCreateAhResp }

func (a *rxeAH) fill(call *uapi.Call) { uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &a.resp) }

func (a *rxeAH) made() error {
	if a.resp.AhNum == 0 {
		return fmt.Errorf("%w: the kernel is older than 5.15 and gave no AH number", unix.EOPNOTSUPP)
	}
	return nil
}

func (*rxeAH) free() error { return nil }

type rxeCQ struct {
	q    *CQ
	resp uapi.RxeCreateCqResp
	ring rxe.CompletionQueue
}

func (c *rxeCQ) fill(call *uapi.Call) { uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &c.resp) }

func (c *rxeCQ) made() (err error) {
	c.ring, err = rxe.MapCompletion(c.q.ctx.fd, c.resp.Mi)
	return err
}

func (c *rxeCQ) free() error { return c.ring.Unmap() }

func (c *rxeCQ) arm(solicitedOnly bool) error {
	in := uapi.ReqNotifyCq{CqHandle: c.q.handle}
	if solicitedOnly {
		in.SolicitedOnly = 1
	}
	return write[uapi.ReqNotifyCq, uapi.None](c.q.ctx, uapi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &in, nil)
}

// resize has the kernel make another ring, with what is in this one.
func (c *rxeCQ) resize(entries uint32) (uint32, error) {
	var out uapi.ResizeCqResp
	var resp uapi.RxeResizeCqResp
	call := c.q.resizeCall(entries, &out)
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &resp)
	if err := c.q.ctx.do(call); err != nil {
		return 0, err
	}
	ring, err := rxe.MapCompletion(c.q.ctx.fd, resp.Mi)
	if err != nil {
		// What comes from here on comes to the ring that can't be read.
		c.q.overflowed.Store(true)
		return 0, err
	}
	old := c.ring
	c.ring = ring
	return out.Cqe, old.Unmap()
}

// poll moves completions into dst. full tells that the ring was full: completions may have been lost.
func (c *rxeCQ) poll(dst []WC) (n int, full bool) {
	ready := c.ring.Ready()
	n = min(ready, len(dst))
	for i := range n {
		wc := &dst[i]
		rxe.Read(&c.ring, i, wc)
		if wc.Flags&WCWithImm != 0 {
			wc.Imm = fromNetwork(wc.Imm)
		} else if wc.Flags&rxeWithInv != 0 {
			wc.Flags ^= rxeWithInv | WCWithInv
		}
	}
	if n == 0 {
		return 0, ready == c.ring.Capacity()
	}
	return n, c.ring.Consume(n)
}

// rxeWithInv is WCWithInv as rxe writes it: by the kernel's own number (IB_WC_WITH_INVALIDATE) instead of that of user space.
const rxeWithInv WCFlags = 1 << 2

type rxeSRQ struct {
	s    *SRQ
	resp uapi.RxeCreateSrqResp
	ring rxe.WorkQueue
}

func (r *rxeSRQ) fill(call *uapi.Call) { uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &r.resp) }

func (r *rxeSRQ) made() (err error) {
	r.ring, err = rxe.MapRecv(r.s.ctx.fd, r.resp.Mi)
	return err
}

func (r *rxeSRQ) free() error { return r.ring.Unmap() }
func (r *rxeSRQ) room() int   { return r.ring.Free() }

type rxeQP struct {
	q        *QP
	resp     uapi.RxeCreateQpResp
	doorbell *uapi.Doorbell
	sq       rxe.WorkQueue // guarded by the QP's sendMu, as ssn
	ssn      uint32
	rq       rxe.WorkQueue // guarded by the QP's recvMu
}

func (r *rxeQP) fill(call *uapi.Call) { uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &r.resp) }

// made maps the send queue and, without an SRQ, the receive queue.
func (r *rxeQP) made() (err error) {
	c := r.q.ctx
	if r.sq, err = rxe.MapSend(c.fd, r.resp.SqMi); err != nil {
		return err
	}
	if r.q.srq == nil {
		if r.rq, err = rxe.MapRecv(c.fd, r.resp.RqMi); err != nil {
			return err
		}
	}
	r.doorbell = uapi.NewDoorbell(c.fd, c.driver, r.q.handle)
	return nil
}

func (r *rxeQP) free() error {
	if r.doorbell != nil {
		r.doorbell.Free()
	}
	return errors.Join(r.sq.Unmap(), r.rq.Unmap())
}

func (*rxeQP) modify(in *uapi.ModifyQp) *uapi.Call { return modifyQP(in) }

// modifyQP is the call that changes a QP's attributes, without a driver's part.
func modifyQP(in *uapi.ModifyQp) *uapi.Call {
	return uapi.NewWrite[uapi.ModifyQp, uapi.None](uapi.IB_USER_VERBS_CMD_MODIFY_QP, in, nil)
}

func (r *rxeQP) reset() {
	r.sq.Reset()
	r.rq.Reset()
}
