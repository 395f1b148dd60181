// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A compQueue is a completion queue, and the place where the packets of the QPs
// that send to it wait for their time.
type compQueue struct {
	dev   *Device
	inner backend.CQ
	// next is when Poll should be called for what is ours.
	next     atomic.Int64
	sleeping atomic.Bool
	// copies are the payloads of the last Poll's datagrams when the real queue
	// had to be polled more than once, which is seldom; else there are none.
	copies [][]byte

	mu sync.Mutex // guards the rest, and what the QPs say it does
	// +checklocks:mu
	waiting *netsim.Queue // of parcels by number
	// +checklocks:mu
	parcels parcels
	// +checklocks:mu
	qps []*queuePair // by queuePair.index; nil once closed
	// touched are the QPs that have something to pass on.
	// +checklocks:mu
	touched []*queuePair
	// ready are completions of sends that are to be reported.
	// +checklocks:mu
	ready ring.Ring[sentEntry]
	// signals is how many sends the real device has yet to report.
	// +checklocks:mu
	signals int
	// resume is when passing on may go on after a burst.
	// +checklocks:mu
	resume units.Instant
	// refused says that a post met no room, news that there is some.
	// +checklocks:mu
	refused, news bool
}

// A parcel is a packet that waits: the record of a QP.
type parcel struct {
	qp     uint32
	record uint32
}

// parcels numbers those that wait. It only grows.
type parcels struct {
	slab []parcel
	free []uint32
}

func (s *parcels) put(p parcel) uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.slab[i] = p
		return i
	}
	s.slab = append(s.slab, p)
	return uint32(len(s.slab) - 1)
}

func (s *parcels) remove(i uint32) parcel {
	s.free = append(s.free, i)
	return s.slab[i]
}

// maxSignals bounds the completions that the real device owes for batches
// passed on. Its queue is made that much longer.
const maxSignals = 256

// NewCQ implements backend.Device.
func (d *Device) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	if c.Entries < 1 {
		return nil, operr.New("new completion queue", "linkemu", "completion queue of %d entries: must be at least 1", c.Entries)
	}
	c.Entries += maxSignals
	inner, err := d.inner.NewCQ(c)
	if err != nil {
		return nil, err
	}
	q := &compQueue{dev: d, inner: inner, waiting: netsim.NewQueue()}
	q.next.Store(int64(units.Never))
	return q, nil
}

// Poll passes on what is due, and polls the real queue.
func (c *compQueue) Poll(now units.Instant, dst []backend.Completion) (n int, err error) {
	c.mu.Lock()
	c.news = false
	c.passOn(now)
	n = c.popReady(dst)
	c.mu.Unlock()
	if n == len(dst) {
		c.finish(nil)
		return n, nil
	}
	// What finish takes out leaves room for more that may wait.
	c.copies = c.copies[:0]
	for full, from := true, n; full && n < len(dst); {
		c.copyDatagrams(dst[from:n]) // before the real queue is polled again
		m, e := c.inner.Poll(now, dst[n:])
		full, err = n+m == len(dst) && e == nil, e
		from, n = n, n+c.finish(dst[n:n+m])
		if more := full && n < len(dst); !more && len(c.copies) > 0 {
			c.copyDatagrams(dst[from:n])
		}
	}
	if n < len(dst) {
		n += c.pollReady(dst[n:])
	}
	return n, err
}

// copyDatagrams makes the datagrams of x outlive the real queue's next Poll.
func (c *compQueue) copyDatagrams(x []backend.Completion) {
	for i := range x {
		if x[i].Kind == backend.KindDatagram {
			data := bytes.Clone(c.inner.Datagram(&x[i]))
			x[i].WRID = uint64(len(c.copies))
			c.copies = append(c.copies, data)
		}
	}
}

// passOn gives the real device what is due at now. What falls due together goes
// in one batch for each QP, in the order of its own packets, so that trains of
// packets stay together; but no more at a time than a receiver can take, or a
// worker that the scheduler kept waiting would cause losses that nobody asked
// for.
//
// c.mu is held.
func (c *compQueue) passOn(now units.Instant) {
	t, bytes := c.dev.time(now), units.Bytes(0)
	for now >= c.resume && bytes < c.dev.burst && c.waiting.Next() <= t {
		_, i := c.waiting.Pop()
		p := c.parcels.remove(i)
		q := c.qps[p.qp]
		if q == nil {
			continue // closed meanwhile
		}
		bytes += q.due(p.record)
		if !q.touched {
			q.touched = true
			c.touched = append(c.touched, q)
		}
	}
	if bytes >= c.dev.burst {
		c.resume = now.Add(c.dev.pause)
	}
	kept := 0
	for _, q := range c.touched {
		q.flush(now)
		if q.touched = q.left() > 0; q.touched {
			c.touched[kept] = q
			kept++
		}
	}
	clear(c.touched[kept:])
	c.touched = c.touched[:kept]
}

// finish takes the real device's reports of sends out of x, which it closes up,
// and returns how many completions are left in it.
func (c *compQueue) finish(x []backend.Completion) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for i := range x {
		if x[i].Kind == backend.KindSent {
			c.reported(&x[i])
			continue
		}
		if n != i {
			x[n] = x[i]
		}
		n++
	}
	c.setNext()
	return n
}

// reported records that the real device no longer reads the memory of a write and
// of those before it.
//
// c.mu is held.
func (c *compQueue) reported(x *backend.Completion) {
	index, order, signaled := unpackWRID(x.WRID)
	q := c.qps[index]
	if q == nil {
		return // closed during this Poll
	}
	if signaled {
		c.signals--
		q.signals--
	}
	// order has fewer bits than the count, but is never behind it.
	through := q.done + (order-q.done)&orderMask
	if x.Status != backend.StatusOK {
		q.failed(through, x.Status)
	}
	q.done = through + 1
	q.settle()
}

func (c *compQueue) pollReady(dst []backend.Completion) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.popReady(dst)
	c.setNext()
	return n
}

// setNext works out when there is something to do, for Next to read without the
// lock.
//
// c.mu is held.
func (c *compQueue) setNext() {
	next := units.Never
	if t := c.waiting.Next(); t != netsim.Never {
		next = c.dev.instant(t)
		if c.waiting.Len() >= busy {
			next = next.Add(c.dev.slack)
		}
		next = max(next, c.resume)
	}
	if c.news || c.ready.Len() > 0 {
		next = c.dev.base // long ago
	}
	c.next.Store(int64(next))
}

// Next is when a packet falls due, or the real queue has something to do.
func (c *compQueue) Next() units.Instant {
	return min(units.Instant(c.next.Load()), c.inner.Next())
}

// Wait waits on the real queue, but not beyond Next.
func (c *compQueue) Wait(d units.Duration) error {
	// Set before Next is read, so that a post that comes later wakes us.
	c.sleeping.Store(true)
	defer c.sleeping.Store(false)
	if next := units.Instant(c.next.Load()); next != units.Never {
		d = min(d, next.Sub(c.dev.Now()))
		if d <= 0 {
			return nil
		}
	}
	return c.inner.Wait(d)
}

func (c *compQueue) Datagram(x *backend.Completion) []byte {
	if len(c.copies) > 0 {
		return c.copies[x.WRID]
	}
	return c.inner.Datagram(x)
}

func (c *compQueue) Wake() { c.inner.Wake() }

func (c *compQueue) Close() error { return c.inner.Close() }

// posted is called after packets have been added: a sleeper must know.
//
// c.mu is held.
func (c *compQueue) posted() {
	before := c.next.Load()
	c.setNext()
	if c.next.Load() < before && c.sleeping.Load() {
		c.inner.Wake()
	}
}

// roomMade is called when a QP can take posts again.
//
// c.mu is held.
func (c *compQueue) roomMade() {
	if c.refused {
		c.refused, c.news = false, true
	}
}

func ours(d *Device, x backend.CQ, what string) (*compQueue, error) {
	if c, ok := x.(*compQueue); ok && c.dev == d {
		return c, nil
	}
	return nil, operr.New("new queue pair", "linkemu", "%s must be a completion queue of this wrapped device", what)
}

// A sentEntry is the completion of a send that is to be reported.
type sentEntry struct {
	backend.Completion
	qp *queuePair
}

// popReady moves completions of sends to dst; mu is held.
func (c *compQueue) popReady(dst []backend.Completion) int {
	n := min(len(dst), c.ready.Len())
	for i := range n {
		dst[i] = c.ready.Pop().Completion
	}
	return n
}
