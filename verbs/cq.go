// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// CQ is a completion queue.
type CQ struct {
	object
	handle uint32
	cqe    int

	mu   sync.Mutex
	part cqPart
	gone bool // its part is freed
	// suspect is set when the queue has been full, and empties counts the polls since then that found nothing.
	suspect bool
	empties uint32

	// overflowed is set by whoever reads the CQ's error event.
	overflowed atomic.Bool
}

// CreateCQ makes a CQ of at least entries entries, on completion vector 0. ch may be nil: then
// RequestNotify has no use.
func (c *Context) CreateCQ(entries int, ch *CompChannel) (*CQ, error) {
	return c.CreateCQVector(entries, ch, 0)
}

// CreateCQVector is CreateCQ on a completion vector below NumCompVectors.
func (c *Context) CreateCQVector(entries int, ch *CompChannel, vector int) (*CQ, error) {
	var parents []*object
	if ch != nil {
		parents = append(parents, &ch.object)
	}
	o, err := c.attach("CQ", parents...)
	if err != nil {
		return nil, err
	}
	cq := &CQ{object: o}
	if err := cq.create(entries, ch, vector); err != nil {
		o.abandon()
		return nil, err
	}
	c.publish(cq)
	return cq, nil
}

func (q *CQ) create(entries int, ch *CompChannel, vector int) error {
	cqe, comp, actual := limit32(entries), limit32(vector), uint32(0)
	part, err := q.ctx.provider.cq(q, &cqe)
	if err != nil {
		return q.createError(entries, vector, err)
	}
	q.part = part
	call := uapi.NewCall(&uapi.UVERBS_METHOD_CQ_CREATE)
	call.PutNew(uapi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_CQ_CQE, &cqe)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &q.id)
	uapi.PutIn(call, uapi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &comp)
	if ch != nil {
		call.PutFD(uapi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, ch.fd)
	}
	call.PutFD(uapi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, q.ctx.events.fd)
	uapi.PutOut(call, uapi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &actual)
	part.fill(call)
	if err := q.ctx.do(call); err != nil {
		_ = part.free()
		return q.createError(entries, vector, err)
	}
	q.handle, q.cqe = call.Result(uapi.UVERBS_ATTR_CREATE_CQ_HANDLE), int(actual)
	if err := part.made(); err != nil {
		return errors.Join(wrap("create CQ", q.ctx.info.Name, err), q.destroy(), part.free())
	}
	return nil
}

func (q *CQ) createError(entries, vector int, err error) error {
	e := &Error{Op: "create CQ", Object: fmt.Sprintf("%s, %d entries", q.ctx.info.Name, entries), Err: err, Fix: fix(err)}
	switch {
	case entries < 1 || entries > int(q.ctx.attr.MaxCQE):
		e.Fix = fmt.Sprintf("the device allows 1 to %d entries", q.ctx.attr.MaxCQE)
	case vector < 0 || vector >= int(q.ctx.vectors):
		e.Fix = fmt.Sprintf("completion vector %d: the device has %d", vector, q.ctx.vectors)
	case errors.Is(err, unix.ENOMEM):
		e.Fix = q.ctx.queueFix(fmt.Sprintf("%d CQs", q.ctx.attr.MaxCQ))
	case errors.Is(err, unix.EINVAL):
		e.Fix = fmt.Sprintf("out of the device's %d CQs", q.ctx.attr.MaxCQ)
	}
	return e
}

// Capacity is the number of completions that the CQ can hold, at least what was asked for.
func (q *CQ) Capacity() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cqe
}

// Resize changes what the CQ can hold, to at least entries. Completions that wait there stay, in their order; fewer than there are is
// EINVAL. When the CQ gets smaller while its QPs are at work, completions that come meanwhile may be too many for it: ErrCQOverflow.
func (q *CQ) Resize(entries int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return ErrClosed
	}
	if entries < 1 || entries > int(q.ctx.attr.MaxCQE) {
		return q.resizeError(entries, unix.EINVAL)
	}
	n, err := q.part.resize(uint32(entries))
	if err != nil {
		return q.resizeError(entries, err)
	}
	q.cqe = int(n)
	return nil
}

func (q *CQ) resizeError(entries int, err error) error {
	e := &Error{Op: "resize", Object: fmt.Sprintf("%v, %d entries", q, entries), Err: err, Fix: fix(err)}
	switch {
	case errors.Is(err, unix.EINVAL):
		e.Fix = fmt.Sprintf("the device allows 1 to %d entries, and no fewer than completions wait: poll first", q.ctx.attr.MaxCQE)
	case errors.Is(err, unix.ENOMEM):
		e.Fix = q.ctx.queueFix(fmt.Sprintf("%d entries", q.ctx.attr.MaxCQE))
	}
	return e
}

// resizeCall is the call that resizes the CQ; out tells what it has become.
func (q *CQ) resizeCall(entries uint32, out *uapi.ResizeCqResp) *uapi.Call {
	return uapi.NewWrite(uapi.IB_USER_VERBS_CMD_RESIZE_CQ, &uapi.ResizeCq{CqHandle: q.handle, Cqe: entries}, out)
}

// String names the CQ in errors and events.
func (q *CQ) String() string { return fmt.Sprintf("CQ %d of %s", q.handle, q.ctx.info.Name) }

// RequestNotify has the CQ announce the next completion on its channel; with solicitedOnly, the
// next one of a request that the peer marked as solicited, or a failed one. Poll after it: what
// had arrived before is not announced.
func (q *CQ) RequestNotify(solicitedOnly bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return ErrClosed
	}
	return wrap("request notification", q.String(), q.part.arm(solicitedOnly))
}

// Moderate has the CQ announce completions on its channel only when there are count of them, or the oldest has waited for period
// microseconds. Devices without it, rxe among them, answer EOPNOTSUPP.
func (q *CQ) Moderate(count, period uint16) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return ErrClosed
	}
	in := uapi.ExModifyCq{CqHandle: q.handle, AttrMask: uapi.IB_CQ_MODERATE, Count: count, Period: period}
	err := write[uapi.ExModifyCq, uapi.None](q.ctx, uapi.IB_USER_VERBS_CMD_FLAG_EXTENDED|uapi.IB_USER_VERBS_EX_CMD_MODIFY_CQ, &in, nil)
	return wrap("moderate", q.String(), err)
}

// Poll moves completions into dst and returns their number. It makes no system call, except to look for
// what was lost when the CQ has been full, and does not allocate. When the CQ has overflowed it still returns what there is, and with it ErrCQOverflow:
// from then on completions are missing.
func (q *CQ) Poll(dst []WC) (int, error) { return q.poll(dst, nil) }

// PollTimestamps is Poll that also stores the device's clock when each completion was written, in ticks of
// DeviceAttr.HCACoreClock. Devices without such a clock answer EOPNOTSUPP; that of a failed completion is not defined.
func (q *CQ) PollTimestamps(dst []WC, times []uint64) (int, error) {
	if q.ctx.attr.TimestampMask == 0 {
		return 0, wrap("poll with timestamps", q.String(), unix.EOPNOTSUPP)
	}
	return q.poll(dst[:min(len(dst), len(times))], times)
}

func (q *CQ) poll(dst []WC, times []uint64) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return 0, ErrClosed
	}
	var n int
	var full bool
	switch p := q.part.(type) {
	case *rxeCQ:
		n, full = p.poll(dst)
	case *mlx5CQ:
		n, full = p.poll(dst, times)
	}
	if q.mayHaveOverflowed(full, n) {
		q.ctx.drainEvents()
	}
	if q.overflowed.Load() {
		return n, ErrCQOverflow
	}
	return n, nil
}

// mayHaveOverflowed tells whether it is time to look for the event that says that completions were lost, after a poll that took n. They
// are lost only while the queue is full, but the event comes by an interrupt, some time later, and maybe after the last completion. So it
// is looked for in polls that find nothing, too, in ever fewer. mu is held.
func (q *CQ) mayHaveOverflowed(full bool, n int) bool {
	switch {
	case full:
		q.doubt()
		return true
	case !q.suspect || n > 0:
		return false
	}
	q.empties++
	return q.empties&(q.empties-1) == 0 // powers of two
}

// doubt notes that the queue has been full; mu is held.
func (q *CQ) doubt() { q.suspect, q.empties = true, 0 }

// fromNetwork turns a big-endian word, loaded as it lies in memory, into a number, and back. All
// hosts that this package runs on are little endian (amd64, arm64), which a test checks.
func fromNetwork(v uint32) uint32 { return bits.ReverseBytes32(v) }

// Close destroys the CQ. Its QPs must be closed before.
func (q *CQ) Close() error {
	return q.close("destroy CQ", func() error {
		q.mu.Lock()
		defer q.mu.Unlock()
		return freeDestroyed(q.part, q.destroy(), &q.gone)
	})
}

func (q *CQ) die() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
}

func (q *CQ) destroy() error {
	var resp uapi.DestroyCqResp
	call := uapi.NewCall(&uapi.UVERBS_METHOD_CQ_DESTROY)
	call.PutHandle(uapi.UVERBS_ATTR_DESTROY_CQ_HANDLE, q.handle)
	uapi.PutOut(call, uapi.UVERBS_ATTR_DESTROY_CQ_RESP, &resp)
	return q.ctx.do(call)
}
