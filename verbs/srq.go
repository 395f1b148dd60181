// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// SRQAttr are the limits of an SRQ.
type SRQAttr struct {
	// MaxWR is the number of receives that can be posted, MaxSGE that of the pieces of each.
	MaxWR, MaxSGE int
	// Limit is what Query says of SetLimit's. For CreateSRQ it must be 0: mlx5's kernel driver, unlike rxe's, doesn't look at it there
	// (ibv_create_srq(3): irrelevant), and no receive is posted yet.
	Limit int
}

// SRQ is a receive queue that several QPs share.
type SRQ struct {
	object
	handle uint32
	attr   SRQAttr

	mu   sync.Mutex
	part srqPart
	gone bool
}

// CreateSRQ makes a shared receive queue with at least the limits asked for.
func (p *PD) CreateSRQ(attr SRQAttr) (*SRQ, error) {
	o, err := p.ctx.attach("SRQ", &p.object)
	if err != nil {
		return nil, err
	}
	s := &SRQ{object: o}
	if err := s.create(p, attr); err != nil {
		o.abandon()
		return nil, err
	}
	p.ctx.publish(s)
	return s, nil
}

func (s *SRQ) create(p *PD, attr SRQAttr) error {
	if attr.Limit != 0 {
		return &Error{Op: "create SRQ", Object: p.ctx.info.Name, Err: unix.EINVAL, Fix: "leave Limit 0, and call SetLimit once receives are posted"}
	}
	asked := attr
	part, err := s.ctx.provider.srq(s, &attr)
	if err != nil {
		return createSRQError(p.ctx, asked, err)
	}
	s.part = part
	wr, sge, limit := limit32(attr.MaxWR), limit32(attr.MaxSGE), uint32(0)
	call := uapi.NewCall(&uapi.UVERBS_METHOD_SRQ_CREATE)
	call.PutNew(uapi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
	call.PutHandle(uapi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, p.handle)
	call.PutConst(uapi.UVERBS_ATTR_CREATE_SRQ_TYPE, uapi.IB_UVERBS_SRQT_BASIC)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, &s.id)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, &wr)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, &sge)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_SRQ_LIMIT, &limit)
	call.PutFD(uapi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD, p.ctx.events.fd)
	uapi.PutOut(call, uapi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &wr)
	uapi.PutOut(call, uapi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &sge)
	part.fill(call)
	if err := p.ctx.do(call); err != nil {
		_ = part.free()
		return createSRQError(p.ctx, asked, err)
	}
	s.handle = call.Result(uapi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
	s.attr = SRQAttr{MaxWR: int(wr), MaxSGE: int(sge)}
	if err := part.made(); err != nil {
		return errors.Join(wrap("create SRQ", p.ctx.info.Name, err), s.destroy(), part.free())
	}
	return nil
}

func createSRQError(c *Context, attr SRQAttr, err error) error {
	e := &Error{Op: "create SRQ", Object: fmt.Sprintf("%s, %d receives of %d pieces", c.info.Name, attr.MaxWR, attr.MaxSGE),
		Err: err, Fix: fix(err)}
	switch d := &c.attr; {
	case errors.Is(err, unix.ENOMEM):
		e.Fix = c.queueFix(fmt.Sprintf("%d SRQs", d.MaxSRQ))
	case errors.Is(err, unix.EINVAL):
		e.Fix = fmt.Sprintf("the device allows 1 to %d receives of up to %d pieces", d.MaxSRQWR, d.MaxSRQSGE)
	}
	return e
}

// String names the SRQ in errors and events.
func (s *SRQ) String() string { return fmt.Sprintf("SRQ %d of %s", s.handle, s.ctx.info.Name) }

// PostRecv posts receives for all QPs of the queue, like (*QP).PostRecv.
func (s *SRQ) PostRecv(wrs []RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return 0, ErrClosed
	}
	switch p := s.part.(type) {
	case *rxeSRQ:
		return rxePostRecv(&p.ring, s.attr.MaxSGE, wrs)
	case *mlx5SRQ:
		return p.postRecv(wrs)
	}
	return 0, ErrNoProvider
}

// Free is the number of receives that can be posted now.
func (s *SRQ) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return 0
	}
	return s.part.room()
}

// maskSRQLimit is IB_SRQ_LIMIT of enum ib_srq_attr_mask.
const maskSRQLimit = 2

// SetLimit arms EventSRQLimitReached to come once, when fewer than limit receives are left; 0 disarms it.
func (s *SRQ) SetLimit(limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return ErrClosed
	}
	in := uapi.ModifySrq{SrqHandle: s.handle, AttrMask: maskSRQLimit, SrqLimit: limit32(limit)}
	var hw uapi.RxeModifySrqCmd
	call := uapi.NewWrite[uapi.ModifySrq, uapi.None](uapi.IB_USER_VERBS_CMD_MODIFY_SRQ, &in, nil)
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &hw)
	err := s.ctx.do(call)
	if errors.Is(err, unix.EINVAL) && (limit < 0 || limit > s.attr.MaxWR) {
		return &Error{Op: "limit", Object: fmt.Sprintf("%v, %d", s, limit), Err: err, Fix: fmt.Sprintf("the queue holds 0 to %d receives", s.attr.MaxWR)}
	}
	return wrap("limit", s.String(), err)
}

// Query asks for the limits in force.
func (s *SRQ) Query() (SRQAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return SRQAttr{}, ErrClosed
	}
	in := uapi.QuerySrq{SrqHandle: s.handle}
	var out uapi.QuerySrqResp
	if err := write(s.ctx, uapi.IB_USER_VERBS_CMD_QUERY_SRQ, &in, &out); err != nil {
		return SRQAttr{}, wrap("query", s.String(), err)
	}
	return SRQAttr{MaxWR: int(out.MaxWr), MaxSGE: int(out.MaxSge), Limit: int(out.SrqLimit)}, nil
}

// Close destroys the SRQ. Its QPs must be closed before.
func (s *SRQ) Close() error {
	return s.close("destroy SRQ", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return freeDestroyed(s.part, s.destroy(), &s.gone)
	})
}

func (s *SRQ) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s *SRQ) destroy() error {
	var events uint32
	call := uapi.NewCall(&uapi.UVERBS_METHOD_SRQ_DESTROY)
	call.PutHandle(uapi.UVERBS_ATTR_DESTROY_SRQ_HANDLE, s.handle)
	uapi.PutOut(call, uapi.UVERBS_ATTR_DESTROY_SRQ_RESP, &events)
	return s.ctx.do(call)
}
