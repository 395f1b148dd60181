// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// pollBatch is how many completions are taken from a ring at once.
const pollBatch = 256

// cq is one worker's completion queue: rings for sends, rings for receives, and the channel on which
// they announce completions to a worker that sleeps.
type cq struct {
	d       *Device
	entries int
	waker   waker

	// rings and uds, the UD queue pairs that receive here, are replaced under mu, never changed.
	rings  atomic.Pointer[[]*ring]
	uds    atomic.Pointer[[]*queuePair]
	mu     sync.Mutex
	closed atomic.Bool // set while mu is held

	// The fields below belong to the goroutine that polls.
	wcs      [pollBatch]verbs.WC
	refill   []*queuePair // the queue pairs that have receives to post again
	owing    []*queuePair // the queue pairs that have answers to recalls to post
	dgrams   []dgram      // the datagrams that the last Poll returned
	first    int          // the ring to begin with
	reported error        // the last one that was reported
	held     [1]verbs.WC  // what Wait found when it armed
	holding  *ring        // the ring that held[0] came from; nil while nothing is held
}

// NewCQ makes a completion queue.
func (d *Device) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	if err := d.health.get(); err != nil {
		return nil, err
	}
	if c.Entries < 1 {
		return nil, operr.New("new completion queue", d.name(), "%d entries: want at least 1", c.Entries)
	}
	ch, err := d.ctx.CreateCompChannel()
	if err != nil {
		return nil, operr.Wrap("new completion queue", d.name(), d.translate(err))
	}
	q := &cq{d: d, entries: c.Entries, waker: waker{ch: ch}}
	q.rings.Store(&[]*ring{})
	q.uds.Store(&[]*queuePair{})
	return q, nil
}

// addRing makes a ring of n completions; c.mu is held.
func (c *cq) addRing(sends bool, n int) (*ring, error) {
	if n > c.d.maxCQE {
		return nil, operr.New("new completion queue", c.d.name(), "a completion queue of %d entries: %s has at most %d: choose fewer CQ entries, or a smaller send depth", n, c.d.cfg.Device, c.d.maxCQE)
	}
	v, err := c.d.ctx.CreateCQ(n, c.waker.ch)
	if err != nil {
		return nil, operr.Wrap("new completion queue", c.d.name(), c.d.translate(err))
	}
	r := &ring{cq: v, sends: sends, room: n}
	all := append(slices.Clone(*c.rings.Load()), r)
	c.rings.Store(&all)
	return r, nil
}

// reserve finds a ring with room for n completions of sends or of receives, or makes one.
func (c *cq) reserve(sends bool, n int) (*ring, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, backend.ErrClosed
	}
	for _, r := range *c.rings.Load() {
		if r.sends == sends && r.reserve(n) {
			return r, nil
		}
	}
	r, err := c.addRing(sends, max(n, min(c.entries, c.d.maxCQE)))
	if err != nil {
		return nil, err
	}
	r.reserve(n)
	return r, nil
}

// Poll takes completions from all rings, beginning with another one each time.
func (c *cq) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	if c.closed.Load() {
		return 0, backend.ErrClosed
	}
	c.recycle()
	c.d.check(now)
	c.forUDs(udBroken, (*queuePair).reset)
	rings := *c.rings.Load()
	n := 0
	var failed error
	for i := range rings {
		r := rings[(c.first+i)%len(rings)]
		k, err := c.pollRing(r, dst[n:])
		n += k
		if err != nil {
			failed = err
		}
	}
	c.first++
	c.forUDs(udReset, (*queuePair).restart)
	c.postReceives()
	c.owing = slices.DeleteFunc(c.owing, func(q *queuePair) bool { return !q.speak() })
	if cause := c.d.health.get(); cause != nil {
		failed = cause
	}
	return n, c.reportOnce(failed)
}

// reportOnce returns an error of the device the first time only: it is final, and Poll is called again and again.
// That the device was closed is returned each time.
func (c *cq) reportOnce(err error) error {
	err = c.d.translate(err)
	if err == nil || errors.Is(err, backend.ErrClosed) {
		return err
	}
	if errors.Is(err, c.reported) {
		return nil
	}
	c.reported = err
	return err
}

// pollRing takes completions until the ring is empty or dst is full.
func (c *cq) pollRing(r *ring, dst []backend.Completion) (n int, err error) {
	r.empty = false
	if c.holding == r && len(dst) > 0 {
		c.holding = nil
		n += c.convertAll(r, c.held[:], dst)
	}
	for n < len(dst) {
		want := min(len(dst)-n, len(c.wcs))
		k, e := r.poll(c.wcs[:want])
		n += c.convertAll(r, c.wcs[:k], dst[n:])
		if err = e; err != nil || k < want {
			break
		}
	}
	return n, err
}

// convertAll converts completions of a ring, for which dst has room, and counts what was received.
func (c *cq) convertAll(r *ring, wcs []verbs.WC, dst []backend.Completion) (n int) {
	var received, bytes, completed uint64
	for i := range wcs {
		if !r.sends && (wcs[i].Status == verbs.WCSuccess || wcs[i].Status == verbs.WCRemoteAccessErr) {
			completed++
		}
		if c.convert(r, &wcs[i], &dst[n]) == 0 {
			continue
		}
		if dst[n].Kind != backend.KindSent {
			received++
			bytes += uint64(dst[n].Len)
		}
		n++
	}
	if completed > 0 {
		c.d.intake.completed.Add(completed)
	}
	if received > 0 {
		c.d.counters.packetsReceived.Add(received)
		c.d.counters.bytesReceived.Add(bytes)
	}
	return n
}

// convert turns a completion of the kernel into one of package backend's. It returns 0 when there is nothing to report.
func (c *cq) convert(r *ring, wc *verbs.WC, out *backend.Completion) int {
	q := c.d.qps.lookup(wc.QPN)
	switch {
	case q == nil: // the queue pair has been closed since the request was posted
		return 0
	case r.sends:
		return q.sent(wc, out)
	case q.dg != nil:
		return c.datagram(q, wc, out)
	}
	if wc.Status != verbs.WCSuccess && (wc.Status != verbs.WCRemoteAccessErr || q.talk != nil) {
		q.failStatus(wc.Status, operr.New("receive", c.d.name(), "QP %d can't receive any more: %v: connect anew", wc.QPN, wc.Status))
		return 0
	}
	if q.owed++; q.owed == 1 {
		c.refill = append(c.refill, q)
	}
	switch {
	case wc.Opcode == verbs.WCRecv && q.talk != nil && wc.Flags&verbs.WCWithImm != 0:
		if q.onMessage(wc.Imm) && !slices.Contains(c.owing, q) {
			c.owing = append(c.owing, q)
		}
		return 0
	case wc.Status == verbs.WCRemoteAccessErr:
		*out = backend.Completion{Cookie: q.cookie, Kind: backend.KindWrite, Status: backend.StatusRemoteAccess}
		return 1
	case wc.Opcode != verbs.WCRecvRDMAWrite || wc.Flags&verbs.WCWithImm == 0:
		return 0 // a SEND, which the peer has no business to make
	}
	*out = backend.Completion{Cookie: q.cookie, Imm: wc.Imm, Len: wc.ByteLen, Kind: backend.KindWrite}
	return 1
}

// postReceives posts new receives for those that, as this Poll has seen, were consumed.
func (c *cq) postReceives() {
	for i, q := range c.refill {
		if q.owed == q.depth {
			c.d.intake.empty.Add(1)
		}
		q.postReceives()
		if q.talk != nil {
			q.talk.signs.Add(1)
		}
		c.refill[i] = nil
	}
	c.refill = c.refill[:0]
}

// Next is when to look at the device again.
func (c *cq) Next() units.Instant {
	if c.d.health.get() != nil {
		return units.Never
	}
	if len(c.owing) > 0 || slices.ContainsFunc(*c.uds.Load(), func(q *queuePair) bool { return q.dg.state.Load() != udReady }) {
		return 0
	}
	return units.Instant(c.d.health.next.Load())
}

// Close destroys the rings. Its queue pairs must be closed.
func (c *cq) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	for _, r := range *c.rings.Load() {
		if err := r.cq.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			return operr.Wrap("close completion queue", c.d.name(), err)
		}
	}
	c.closed.Store(true)
	return c.waker.ch.Close()
}
