// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// ErrRemoved is what a device returns that was taken away (rdma link del, unplugged). The kernel lets
// the removal wait until the device is closed.
var ErrRemoved = errors.New("uc: the RDMA device was removed: close it, and open it again when it is back")

// health says whether the device can still be used.
type health struct {
	next atomic.Int64 // when to ask again
	err  atomic.Pointer[error]
}

// end makes every later call fail with err; the first reason stays.
func (h *health) end(err error) { h.err.CompareAndSwap(nil, &err) }

// get is why the device can't be used any more, or nil.
func (h *health) get() error {
	if p := h.err.Load(); p != nil {
		return *p
	}
	return nil
}

// check asks the kernel, once a second, what has happened to the device: soft devices send no event
// when they are removed.
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
		d.log.Error("RDMA device removed")
		h.end(ErrRemoved)
	}
}

func (d *Device) onEvent(e verbs.AsyncEvent) {
	d.log.Warn("RDMA device", "event", e.String())
	switch {
	case e.Type == verbs.EventDeviceFatal:
		d.health.end(fmt.Errorf("uc: %s: %v: close the device and open it again", d.cfg.Device, e))
	case e.QP != nil:
		if q := d.qps.lookup(e.QP.Num()); q != nil {
			q.fail(fmt.Errorf("uc: %v", e))
		}
	}
}
