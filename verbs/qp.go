// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// QPType is the transport service of a QP.
type QPType uint8

// Transport services.
const (
	RC QPType = uapi.IB_UVERBS_QPT_RC // reliable connection
	UC QPType = uapi.IB_UVERBS_QPT_UC // unreliable connection
	UD QPType = uapi.IB_UVERBS_QPT_UD // unreliable datagram
)

func (t QPType) String() string { return name(t, []string{2: "RC", 3: "UC", 4: "UD"}, "QPType") }

// QPCap are the limits of a QP's queues. CreateQP may give more than was asked for.
type QPCap struct {
	MaxSendWR, MaxRecvWR   int
	MaxSendSGE, MaxRecvSGE int
	// MaxInline is the number of bytes that SendInline can carry.
	MaxInline int
}

// QPInitAttr is what CreateQP makes.
type QPInitAttr struct {
	Type           QPType
	SendCQ, RecvCQ *CQ
	// SRQ, when not nil, takes the place of the QP's own receive queue.
	SRQ *SRQ
	Cap QPCap
	// SignalAll gives every send request a completion.
	SignalAll bool
	// BlueFlame lets PostSend copy a request that it posts alone, of up to 256 bytes with its headers, into the device, which then needn't
	// read it from memory: a lower latency for a longer post. On mlx5 it takes a page of doorbells for each QP, of which a device has a
	// thousand or so; where there are none left, and on other devices, it changes nothing.
	BlueFlame bool
	// OutOfOrder lets the device take receives in any order, and both ends' devices and the network between them deliver messages in any.
	// The peer must be made so, too. A device has it for a type of QP when Context.MaxOutOfOrder isn't 0, and for no more receives than
	// that; it changes nothing about those of an SRQ.
	OutOfOrder bool
}

// QP is a queue pair.
type QP struct {
	object
	handle, num uint32
	typ         QPType
	cap         QPCap
	srq         *SRQ
	state       atomic.Uint32
	part        qpPart

	// sendMu guards the send queue, recvMu the receive queue, both together gone. Taken in this order.
	sendMu sync.Mutex
	recvMu sync.Mutex
	gone   bool // its part is freed
}

var errUsesSRQ = errors.New("the QP receives from its SRQ: post there")

// CreateQP makes a QP in state RESET. Connect takes it to RTS in one go, Modify step by step.
func (p *PD) CreateQP(attr QPInitAttr) (*QP, error) {
	if attr.SendCQ == nil || attr.RecvCQ == nil {
		return nil, &Error{Op: "create QP", Object: p.ctx.info.Name, Err: unix.EINVAL, Fix: "SendCQ and RecvCQ are needed; they may be the same"}
	}
	parents := []*object{&p.object, &attr.SendCQ.object, &attr.RecvCQ.object}
	if attr.SRQ != nil {
		parents = append(parents, &attr.SRQ.object)
	}
	o, err := p.ctx.attach("QP", parents...)
	if err != nil {
		return nil, err
	}
	q := &QP{object: o, typ: attr.Type, srq: attr.SRQ}
	if err := q.create(p, &attr); err != nil {
		o.abandon()
		return nil, err
	}
	p.ctx.publish(q)
	return q, nil
}

func (q *QP) create(p *PD, attr *QPInitAttr) error {
	c := &attr.Cap
	limits := uapi.QpCap{MaxSendWr: limit32(c.MaxSendWR), MaxRecvWr: limit32(c.MaxRecvWR), MaxSendSge: limit32(c.MaxSendSGE),
		MaxRecvSge: limit32(c.MaxRecvSGE), MaxInlineData: limit32(c.MaxInline)}
	// A send request has one piece unless the caller asks for more.
	limits.MaxSendSge = max(limits.MaxSendSge, 1)
	if attr.SRQ == nil {
		limits.MaxRecvSge = max(limits.MaxRecvSge, 1)
	}
	part, err := p.ctx.provider.qp(q, attr, &limits)
	if err != nil {
		return createQPError(p.ctx, attr, err)
	}
	q.part = part
	flags := uint32(0)
	if attr.SignalAll {
		flags = uapi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	call := uapi.NewCall(&uapi.UVERBS_METHOD_QP_CREATE)
	call.PutNew(uapi.UVERBS_ATTR_CREATE_QP_HANDLE)
	call.PutHandle(uapi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, p.handle)
	call.PutHandle(uapi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, attr.SendCQ.handle)
	call.PutHandle(uapi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, attr.RecvCQ.handle)
	if attr.SRQ != nil {
		call.PutHandle(uapi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, attr.SRQ.handle)
	}
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, &q.id)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_QP_CAP, &limits)
	call.PutConst(uapi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(attr.Type))
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_QP_FLAGS, &flags)
	call.PutFD(uapi.UVERBS_ATTR_CREATE_QP_EVENT_FD, p.ctx.events.fd)
	uapi.PutOut(call, uapi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &limits)
	uapi.PutOut(call, uapi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &q.num)
	part.fill(call)
	if err := p.ctx.do(call); err != nil {
		_ = part.free()
		return createQPError(p.ctx, attr, err)
	}
	q.handle = call.Result(uapi.UVERBS_ATTR_CREATE_QP_HANDLE)
	if err := part.made(); err != nil {
		return errors.Join(wrap("create QP", p.ctx.info.Name, err), q.destroy(), part.free())
	}
	q.cap = QPCap{MaxSendWR: int(limits.MaxSendWr), MaxRecvWR: int(limits.MaxRecvWr), MaxSendSGE: int(limits.MaxSendSge),
		MaxRecvSGE: int(limits.MaxRecvSge), MaxInline: int(limits.MaxInlineData)}
	return nil
}

func createQPError(c *Context, attr *QPInitAttr, err error) error {
	d, w := &c.attr, &attr.Cap
	e := &Error{Op: "create QP", Object: fmt.Sprintf("%s, %v, %+v", c.info.Name, attr.Type, *w), Err: err, Fix: fix(err)}
	switch {
	case w.MaxSendWR > int(d.MaxQPWR) || w.MaxRecvWR > int(d.MaxQPWR):
		e.Fix = fmt.Sprintf("the device allows %d requests a queue", d.MaxQPWR)
	case w.MaxSendSGE > int(d.MaxSGE) || w.MaxRecvSGE > int(d.MaxSGE):
		e.Fix = fmt.Sprintf("the device allows %d pieces a request", d.MaxSGE)
	case attr.Type != RC && attr.Type != UC && attr.Type != UD:
		e.Fix = "the type must be RC, UC or UD"
	case attr.OutOfOrder && errors.Is(err, unix.EOPNOTSUPP):
		e.Fix = fmt.Sprintf("out of order, the device takes up to %d receives of a %v QP", c.MaxOutOfOrder(attr.Type), attr.Type)
	case errors.Is(err, unix.ENOMEM):
		e.Fix = c.queueFix(fmt.Sprintf("%d QPs", d.MaxQP))
	case errors.Is(err, unix.EAGAIN):
		e.Fix = fmt.Sprintf("out of the device's %d QPs", d.MaxQP)
	case errors.Is(err, unix.EINVAL):
		e.Fix = "a limit is outside what the device allows: at least 1 send, and less inline data"
	}
	return e
}

// Num is the QP number, 24 bits, which the peer needs.
func (q *QP) Num() uint32 { return q.num }

// Type is the transport service.
func (q *QP) Type() QPType { return q.typ }

// Cap are the limits that CreateQP gave.
func (q *QP) Cap() QPCap { return q.cap }

// String names the QP in errors and events.
func (q *QP) String() string { return fmt.Sprintf("%v QP %d of %s", q.typ, q.num, q.ctx.info.Name) }

// Close destroys the QP in any state. Its requests vanish without completions.
func (q *QP) Close() error {
	return q.close("destroy QP", func() error {
		q.sendMu.Lock()
		defer q.sendMu.Unlock()
		q.recvMu.Lock()
		defer q.recvMu.Unlock()
		err := freeDestroyed(q.part, q.destroy(), &q.gone)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%w: detach it from its multicast groups first", err)
		}
		return err
	})
}

func (q *QP) die() {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	q.gone = true
}

func (q *QP) isGone() bool {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	return q.gone
}

func (q *QP) destroy() error {
	var events uint32
	call := uapi.NewCall(&uapi.UVERBS_METHOD_QP_DESTROY)
	call.PutHandle(uapi.UVERBS_ATTR_DESTROY_QP_HANDLE, q.handle)
	uapi.PutOut(call, uapi.UVERBS_ATTR_DESTROY_QP_RESP, &events)
	return q.ctx.do(call)
}

// AttachMulticast has a UD QP receive the datagrams of a multicast group; on RoCE lid is 0. On RoCEv2
// the host's IP layer must have joined the group on the interface, too, or it drops the packets
// before the device sees them (any socket can join, as net.ListenMulticastUDP does). A QP can't be
// closed while it is attached.
func (q *QP) AttachMulticast(group GID, lid uint16) error {
	return q.multicast("attach multicast group", uapi.IB_USER_VERBS_CMD_ATTACH_MCAST, group, lid)
}

// DetachMulticast ends what AttachMulticast began.
func (q *QP) DetachMulticast(group GID, lid uint16) error {
	return q.multicast("detach multicast group", uapi.IB_USER_VERBS_CMD_DETACH_MCAST, group, lid)
}

func (q *QP) multicast(verb string, cmd uint32, group GID, lid uint16) error {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	if q.gone {
		return ErrClosed
	}
	in := uapi.AttachMcast{Gid: group, QpHandle: q.handle, Mlid: lid}
	err := write[uapi.AttachMcast, uapi.None](q.ctx, cmd, &in, nil)
	object := fmt.Sprintf("%v, %v", q, group)
	if errors.Is(err, unix.EINVAL) && q.typ != UD {
		return &Error{Op: verb, Object: object, Err: err, Fix: "only a UD QP takes part in a group"}
	}
	if errors.Is(err, unix.EINVAL) && !group.Addr().IsMulticast() {
		return &Error{Op: verb, Object: object, Err: err, Fix: "that is no GID of a group: take that of a multicast address (GIDFromAddr)"}
	}
	return wrap(verb, object, err)
}
