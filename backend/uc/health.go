// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// ErrRemoved is what a device returns that was taken away (rdma link del, unplugged) or has failed for
// good. With some drivers the kernel lets the removal wait until the device is closed.
var ErrRemoved = errors.New("the RDMA device was removed: close it, and open it again when it is back")

// health says whether the device can still be used.
type health struct {
	next atomic.Int64 // when to ask again
	err  atomic.Pointer[error]
}

// fail makes every later call fail with err, unless there is a reason already; it reports whether this is the first.
func (h *health) fail(err error) (first bool) { return h.err.CompareAndSwap(nil, &err) }

// close makes every later call fail with ErrClosed, whatever was wrong before.
func (h *health) close() {
	err := backend.ErrClosed
	h.err.Store(&err)
}

// get is why the device can't be used any more, or nil.
func (h *health) get() error {
	if p := h.err.Load(); p != nil {
		return *p
	}
	return nil
}

// translate replaces package verbs' errors for a closed object and for a removed device by those of this package. The
// latter end the device: real NICs, and rxe since Linux 7, refuse all calls at once.
func (d *Device) translate(err error) error {
	switch {
	case errors.Is(err, verbs.ErrClosed):
		return backend.ErrClosed
	case errors.Is(err, verbs.ErrRemoved):
		d.removed()
		return ErrRemoved
	}
	return err
}

func (d *Device) removed() {
	if d.health.fail(ErrRemoved) {
		d.log.Error("RDMA device removed")
	}
}

// check asks the kernel, once a second, what has happened to the device: up to Linux 6 soft devices
// send no event when they are removed, and work on.
func (d *Device) check(now units.Instant) {
	h := &d.health
	due := h.next.Load()
	if int64(now) < due || !h.next.CompareAndSwap(due, int64(now.Add(checkEvery))) || h.get() != nil {
		return
	}
	for {
		e, ok, err := d.ctx.PollEvent()
		if err != nil || !ok {
			break
		}
		d.onEvent(e)
	}
	if d.ctx.Removed() {
		d.removed()
	}
}

func (d *Device) onEvent(e verbs.AsyncEvent) {
	if e.Type == verbs.EventCommEstablished {
		return // a peer that was connected first has sent before this end was in RTS
	}
	d.log.Warn("RDMA device", "event", e.String())
	if e.QP == nil || !endsQP(e.Type) {
		return
	}
	switch q := d.qps.lookup(e.QP.Num()); {
	case q == nil:
	case q.dg != nil:
		q.dg.failed()
	default:
		q.fail(operr.New("use", d.name(), "%v", e))
	}
}

// endsQP tells the events of a queue pair that has gone to its error state.
func endsQP(t verbs.EventType) bool {
	return t == verbs.EventQPFatal || t == verbs.EventQPRequestError || t == verbs.EventQPAccessError
}
