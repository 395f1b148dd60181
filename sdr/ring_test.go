// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// A ringDevice behaves like hardware: packets are placed, and their completions written into a ring,
// while the worker that should poll it does something else. User-space RoCEv2 alone places packets only
// when it is polled.
type ringDevice struct {
	backend.Device
	rings []*ring // by worker
}

// Caps: posted writes complete, as those of a device that reads memory after it has taken them.
func (d *ringDevice) Caps() backend.Caps {
	c := d.Device.Caps()
	c.Inline = false
	return c
}

func newRingDevice(dev backend.Device) *ringDevice {
	d := &ringDevice{}
	d.Device = cqtest.Wrap(dev, func(inner backend.CQ) backend.CQ {
		r := &ring{inner: inner, now: d.Now, woken: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
		d.rings = append(d.rings, r)
		go r.run()
		return r
	})
	return d
}

// A ring is a completion queue that fills by itself.
type ring struct {
	inner         backend.CQ
	now           func() units.Instant
	woken         chan struct{}
	stop, stopped chan struct{}

	mu      sync.Mutex
	waiting []ringEntry
	// betweenBatches and inBatch, if not nil, hold the worker up: where it has left a batch, or with
	// the completions of a batch in its hands.
	betweenBatches, inBatch chan struct{}
	// beforeSent holds it up when it has handled the packets of a batch, before the first completion of a
	// send in it.
	beforeSent chan struct{}
	held       atomic.Bool

	shown [][]byte // the worker's: payloads of the last Poll
}

type ringEntry struct {
	backend.Completion
	data []byte
}

// run moves completions of the device into the ring.
func (r *ring) run() {
	defer close(r.stopped)
	var comps [64]backend.Completion
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		n, err := r.inner.Poll(r.now(), comps[:])
		if err != nil {
			return
		}
		r.mu.Lock()
		for i := range comps[:n] {
			e := ringEntry{Completion: comps[i]}
			if e.Kind == backend.KindDatagram {
				e.data = bytes.Clone(r.inner.Datagram(&comps[i]))
			}
			r.waiting = append(r.waiting, e)
		}
		r.mu.Unlock()
		if n > 0 {
			r.Wake()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// writes counts the completions of packets that wait.
func (r *ring) writes() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.waiting {
		if e.Kind == backend.KindWrite {
			n++
		}
	}
	return n
}

// hold makes the worker stand still at one of these places until release is called.
func (r *ring) hold(at *chan struct{}) (release func()) {
	gate := make(chan struct{})
	set := func(c chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*at = c
	}
	set(gate)
	return sync.OnceFunc(func() { set(nil); close(gate) })
}

func (r *ring) waitAt(gate *chan struct{}) {
	r.mu.Lock()
	c := *gate
	r.mu.Unlock()
	if c != nil {
		r.held.Store(true)
		<-c
		r.held.Store(false)
	}
}

func (r *ring) Poll(_ units.Instant, dst []backend.Completion) (int, error) {
	r.mu.Lock()
	isSent := func(e ringEntry) bool { return e.Kind == backend.KindSent }
	if i := slices.IndexFunc(r.waiting, isSent); i >= 0 && r.beforeSent != nil {
		r.waiting = slices.Insert(r.waiting, i, ringEntry{Completion: backend.Completion{Kind: backend.KindDatagram}})
	}
	n := min(len(dst), len(r.waiting))
	r.shown = r.shown[:0]
	writes := false
	for i := range n {
		dst[i] = r.waiting[i].Completion
		if dst[i].Kind == backend.KindDatagram {
			dst[i].WRID = uint64(len(r.shown))
			r.shown = append(r.shown, r.waiting[i].data)
		}
		writes = writes || dst[i].Kind == backend.KindWrite
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	r.mu.Unlock()
	if writes {
		r.waitAt(&r.inBatch)
	}
	return n, nil
}

func (r *ring) Datagram(c *backend.Completion) []byte {
	if r.shown[c.WRID] == nil { // put there by Poll
		r.waitAt(&r.beforeSent)
	}
	return r.shown[c.WRID]
}

// Next is asked between batches.
func (r *ring) Next() units.Instant {
	r.waitAt(&r.betweenBatches)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 {
		return 0
	}
	return units.Never
}

func (r *ring) Wait(d units.Duration) error {
	select {
	case <-r.woken:
	case <-time.After(d):
	}
	return nil
}

func (r *ring) Wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *ring) Close() error {
	close(r.stop)
	<-r.stopped
	return r.inner.Close()
}
