// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/verbs/internal/addr"
	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// mlx5QP is a queue pair: the receive queue lies in front of the send queue.
type mlx5QP struct {
	mlx5Memory
	q            *QP
	user         uint32
	page         *mlx5Page
	sq           *mlx5.SendQueue
	rq           *mlx5.RecvQueue // nil with an SRQ
	srq          *mlx5SRQ
	sendCQ, recv *CQ
	in           uapi.Mlx5CreateQp
	resp         uapi.Mlx5CreateQpResp
	limits, caps *uapi.QpCap
	signalAll    bool
	outOfOrder   bool
}

// mlx5Segment is the unit in which requests are measured.
const mlx5Segment = 16

// mlx5MaxSegments is how many segments a request may have: its control segment has six bits for the number (DS).
const mlx5MaxSegments = 63

// mlx5Overhead is the size of what a request has before its data, in segments.
func mlx5Overhead(t QPType) int {
	switch t {
	case UD:
		return 1 + 3 // control, address vector
	case RC:
		return 1 + 1 + 1 // control, remote address, atomic operands
	default:
		return 1 + 1
	}
}

func (p *mlx5Provider) qp(q *QP, attr *QPInitAttr, limits *uapi.QpCap) (qpPart, error) {
	// What is out of bounds stays what it is, for the kernel's refusal and its explanation.
	over := mlx5Overhead(attr.Type)
	segments := over + max(int(limits.MaxSendSge), mlx5.InlineSegments(int(limits.MaxInlineData)))
	perRequest := (segments*mlx5Segment + mlx5.BlockSize - 1) / mlx5.BlockSize
	if limits.MaxSendSge > p.ctx.attr.MaxSGE || limits.MaxRecvSge > p.ctx.attr.MaxSGE ||
		perRequest*mlx5.BlockSize > int(p.resp.MaxSqDescSz) || segments > mlx5MaxSegments || limits.MaxInlineData > uint32(p.resp.MaxSqDescSz) ||
		limits.MaxRecvWr > p.resp.MaxRecvWr || limits.MaxSendWr > p.resp.MaxSendWqebb || limits.MaxSendWr < 1 {
		return nil, unix.EINVAL
	}
	blocks := roundUp(limits.MaxSendWr * uint32(perRequest))
	if blocks > p.resp.MaxSendWqebb {
		return nil, unix.EINVAL
	}
	limits.MaxSendWr = blocks / uint32(perRequest)
	room := min(perRequest*mlx5.BlockSize, mlx5MaxSegments*mlx5Segment) - over*mlx5Segment
	limits.MaxSendSge = min(uint32(room/mlx5Segment), p.ctx.attr.MaxSGE)
	limits.MaxInlineData = uint32(room - 4)
	if attr.OutOfOrder && (p.maxOutOfOrder(attr.Type) == 0 || int(limits.MaxRecvWr) > p.maxOutOfOrder(attr.Type)) {
		return nil, unix.EOPNOTSUPP
	}
	m := &mlx5QP{q: q, limits: limits, outOfOrder: attr.OutOfOrder, signalAll: attr.SignalAll, sendCQ: attr.SendCQ, recv: attr.RecvCQ}
	stride, receives := uint32(0), uint32(0)
	if attr.SRQ != nil {
		m.srq = attr.SRQ.part.(*mlx5SRQ)
		limits.MaxRecvWr, limits.MaxRecvSge = 0, 0
	} else if limits.MaxRecvWr > 0 {
		stride, receives = m.receives()
	}
	var err error
	if attr.BlueFlame {
		m.page, err = p.blueFlame()
	} else {
		m.page, err = p.doorbells()
	}
	if err != nil {
		return nil, err
	}
	before := int(receives * stride)
	if m.mlx5Memory, err = p.allocate(before + int(blocks)*mlx5.BlockSize); err != nil {
		return nil, errors.Join(err, p.freeBlueFlame(m.page))
	}
	if receives > 0 {
		m.rq = mlx5.NewRecvQueue(m.mem[:before], int(stride), int(limits.MaxRecvWr), m.record.Record)
	}
	m.sq = mlx5.NewSendQueue(m.mem[before:before+int(blocks)*mlx5.BlockSize], int(limits.MaxSendWr), m.record.Record, m.page.page, m.page.flame)
	m.in = uapi.Mlx5CreateQp{BufAddr: addr.Of(m.mem), DbAddr: m.record.addr, SqWqeCount: blocks, RqWqeCount: receives,
		Flags: uapi.MLX5_QP_FLAG_UAR_PAGE_INDEX, BfregIndex: m.page.index}
	if stride > 0 {
		m.in.RqWqeShift = uint32(bits.Len32(stride) - 1)
	}
	if err := p.addUser(m); err != nil {
		return nil, errors.Join(err, m.mlx5Memory.free(), p.freeBlueFlame(m.page))
	}
	m.in.Uidx = m.user
	caps := *limits
	m.caps = &caps
	return m, nil
}

// receives is the size of the receive queue's places, in bytes, and their number; the limits become what these hold.
func (m *mlx5QP) receives() (stride, places uint32) {
	l := m.limits
	stride = mlx5Segment * roundUp(l.MaxRecvSge)
	l.MaxRecvSge = stride / mlx5Segment
	share := uint32(1) // of the places that may be in use
	if m.outOfOrder {
		share = 2
	}
	places = max(roundUp(l.MaxRecvWr*share), mlx5.BlockSize/stride)
	l.MaxRecvWr = places / share
	return stride, places
}

func (m *mlx5QP) fill(call *uapi.Call) {
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &m.in)
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &m.resp)
}

func (m *mlx5QP) made() error {
	m.sq.SetQPN(m.q.num)
	// The kernel doesn't know a program's queues: what it answered is less.
	*m.limits = *m.caps
	return nil
}

// clean removes the completions of the queue pair from its CQs.
func (m *mlx5QP) clean() {
	for _, q := range []*CQ{m.sendCQ, m.recv} {
		q.mu.Lock()
		full := q.part.(*mlx5CQ).ring.Clean(m.user, func(e mlx5.Completion) {
			if op := e.Opcode(); m.srq != nil && op != mlx5.Done && op != mlx5.SendError && !m.faulted(e) {
				m.srq.complete(e.Counter())
			}
		})
		if full {
			q.doubt()
		}
		q.mu.Unlock()
		if m.sendCQ == m.recv {
			break
		}
	}
}

func (m *mlx5QP) reset() {
	m.clean()
	m.sq.Reset()
	if m.rq != nil {
		m.rq.Reset()
	}
}

func (m *mlx5QP) free() error {
	m.clean()
	m.p.removeUser(m.user)
	return errors.Join(m.mlx5Memory.free(), m.p.freeBlueFlame(m.page))
}

// mlx5SRQ is a shared receive queue. Its requests are freed by who polls, so that it has a lock of its own.
type mlx5SRQ struct {
	mlx5Memory
	s    *SRQ
	ring *mlx5.SharedQueue
	in   uapi.Mlx5CreateSrq
	resp uapi.Mlx5CreateSrqResp
}

func (p *mlx5Provider) srq(s *SRQ, attr *SRQAttr) (srqPart, error) {
	if attr.MaxWR < 1 || attr.MaxWR >= int(p.resp.MaxSrqRecvWr) || attr.MaxSGE < 0 || attr.MaxSGE > int(p.ctx.attr.MaxSRQSGE) {
		return nil, unix.EINVAL
	}
	n, stride := roundUp(uint32(attr.MaxWR)+1), max(2*mlx5Segment, roundUp(mlx5Segment*uint32(1+attr.MaxSGE)))
	attr.MaxWR, attr.MaxSGE = int(n)-1, int(stride/mlx5Segment)-1
	m := &mlx5SRQ{s: s}
	var err error
	if m.mlx5Memory, err = p.allocate(int(n * stride)); err != nil {
		return nil, err
	}
	m.ring = mlx5.NewSharedQueue(m.mem[:n*stride], int(stride), m.record.Record)
	m.in = uapi.Mlx5CreateSrq{BufAddr: addr.Of(m.mem), DbAddr: m.record.addr}
	return m, nil
}

func (m *mlx5SRQ) fill(call *uapi.Call) {
	uapi.PutIn(call, uapi.UVERBS_ATTR_UHW_IN, &m.in)
	uapi.PutOut(call, uapi.UVERBS_ATTR_UHW_OUT, &m.resp)
}

func (*mlx5SRQ) made() error { return nil }
func (m *mlx5SRQ) room() int { return m.ring.Room() }

// complete frees a request, for a CQ that is being polled.
func (m *mlx5SRQ) complete(index uint16) uint64 {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return m.ring.Complete(index)
}
