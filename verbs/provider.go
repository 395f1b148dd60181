// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"math"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// provider is the user-space half of a kernel driver. The kernel's core makes objects for all drivers in the
// same way; a provider adds its driver's data to the calls that make them, and knows the queues.
type provider interface {
	// context adds the driver's part to GET_CONTEXT.
	context(call *uapi.Call)
	// opened looks at what came back. close releases what the objects shared, which are gone.
	opened() error
	close() error
	// pd adds the driver's part to ALLOC_PD.
	pd(p *PD, call *uapi.Call)
	// Each of these begins an object. cq and qp may raise what was asked for to what the driver takes.
	ah(a *AH, attr *AHAttr) (part, error)
	cq(q *CQ, entries *uint32) (cqPart, error)
	srq(s *SRQ, attr *SRQAttr) (srqPart, error)
	qp(q *QP, attr *QPInitAttr, limits *uapi.QpCap) (qpPart, error)
}

// limit32 is n as the kernel has it, in 32 bits. One that doesn't fit is the largest there is, which every device refuses.
func limit32(n int) uint32 {
	if n < 0 || uint64(n) > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(n)
}

// part is a provider's half of an object. Its calls come in this order: fill, the kernel's call, made when that
// succeeded, and in any case free, once.
type part interface {
	// fill adds the driver's part to the call that makes the object.
	fill(call *uapi.Call)
	// made completes the object: the kernel has made it.
	made() error
	free() error
}

// freeDestroyed frees p and sets gone, unless destroyed says that the kernel still has the object: then the device may write to p's memory.
// What went with its device is as good as destroyed. The lock that guards gone is held.
func freeDestroyed(p part, destroyed error, gone *bool) error {
	if destroyed != nil && !errors.Is(destroyed, ErrRemoved) {
		return destroyed
	}
	*gone = true
	if err := p.free(); err != nil {
		return errors.Join(destroyed, notFreed{err})
	}
	return destroyed
}

// notFreed is the error of an object that the kernel has destroyed, whose memory couldn't be freed.
type notFreed struct{ error }

func (e notFreed) Unwrap() error { return e.error }

// The parts with queues have more methods, which take a batch: poll, postSend and postRecv. Those are called
// through a type switch, because by a call through an interface the caller's batch would escape to the heap.
type (
	// cqPart: arm has the CQ announce the next completion, or the next solicited one; resize gives it room for so many or more, and
	// returns how many. The CQ's lock is held.
	cqPart interface {
		part
		arm(solicitedOnly bool) error
		resize(entries uint32) (uint32, error)
	}
	// qpPart: modify is the call that changes attributes; reset empties the queues of a QP that is in state RESET now. Both locks of the QP
	// are held.
	qpPart interface {
		part
		modify(in *uapi.ModifyQp) *uapi.Call
		reset()
	}
	// srqPart: room is the number of receives that can be posted. The SRQ's lock is held.
	srqPart interface {
		part
		room() int
	}
)

// providers make the providers of the drivers that this package knows, by the kernel's number of the driver, in the order in which they
// are tried. Of a device of another driver the kernel says EINVAL. Whatever it says of one that is optional, the next is tried.
var providers = []struct {
	driver   uint32
	optional bool
	make     func(*Context) provider
}{
	{uapi.RDMA_DRIVER_RXE, false, func(c *Context) provider { return &rxeProvider{c} }},
	// DEVX isn't in all firmware (EINVAL), and what has it may have given it to as many programs as it can, of which the kernel passes on
	// what the firmware says (mlx5_ib_devx_create).
	{uapi.RDMA_DRIVER_MLX5, true, func(c *Context) provider { return newMlx5Provider(c, true) }},
	{uapi.RDMA_DRIVER_MLX5, false, func(c *Context) provider { return newMlx5Provider(c, false) }},
}
