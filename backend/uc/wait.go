// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"context"
	"errors"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// waker lets a worker sleep on a completion channel, in the netpoller, and others wake it.
type waker struct {
	ch *verbs.CompChannel

	mu    sync.Mutex
	woken bool               // +checklocks:mu
	stop  context.CancelFunc // of the present wait; +checklocks:mu
}

// Wait blocks until a ring announces a completion. Arming says nothing about completions that were
// there before, so it looks once more and keeps what it finds for the next Poll.
func (c *cq) Wait(d units.Duration) error {
	if err := c.d.health.get(); errors.Is(err, backend.ErrClosed) {
		return err
	}
	ctx := c.waker.beginWait(d)
	if ctx == nil {
		return nil
	}
	defer c.waker.endWait()
	if cause := c.d.health.get(); cause != nil && errors.Is(c.reported, cause) {
		return c.rest(ctx)
	}
	ready, err := c.arm()
	if err == nil && !ready {
		_, err = c.waker.ch.Wait(ctx)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err = c.d.translate(err); errors.Is(err, ErrRemoved) {
		return nil // Poll returns this error
	}
	return err
}

// rest waits without the device: when that has been removed its completion channels don't wait any more.
func (c *cq) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.d.closing:
		return backend.ErrClosed
	}
}

// arm has all rings announce their next completion. It reports whether one is there already.
func (c *cq) arm() (ready bool, err error) {
	if c.holding != nil {
		return true, nil
	}
	for { // announcements from before this call say nothing new
		if cq, err := c.waker.ch.Poll(); err != nil {
			return false, err
		} else if cq == nil {
			break
		}
	}
	for _, r := range *c.rings.Load() {
		if err := r.cq.RequestNotify(false); err != nil {
			return false, err
		}
		n, err := r.cq.Poll(c.held[:])
		if n > 0 {
			c.holding = r
			return true, nil
		}
		if err != nil && !errors.Is(err, verbs.ErrCQOverflow) {
			return false, err
		}
	}
	return false, nil
}

// Wake ends a wait.
func (c *cq) Wake() {
	w := &c.waker
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.stop != nil {
		w.stop()
	}
}

// beginWait starts a wait; nil when it was woken already.
func (w *waker) beginWait(d units.Duration) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken {
		w.woken = false
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), d)
	w.stop = stop
	return ctx
}

func (w *waker) endWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.stop, w.woken = nil, false
}
