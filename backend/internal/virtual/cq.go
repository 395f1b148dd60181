// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

type compQueue struct {
	dev     *Device
	entries int
	waiting ring.Ring[completion]
	bytes   units.Bytes // of payload that waits
	// counted is how many of those that wait take an entry: sends, and writes
	// and datagrams when they use up receives.
	counted int
	// shown are the packets behind the datagrams of the last Poll.
	shown []uint32
	// retry is when a post that was refused may succeed; refused says that one was since room was made.
	retry   netsim.Time
	refused bool
	failed  error
	qps     int
	closed  bool
}

type completion struct {
	backend.Completion
	qp *QP
}

// NewCQ implements backend.Device.
func (d *Device) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	if d.closed {
		return nil, backend.ErrClosed
	}
	if c.Entries < 1 {
		return nil, d.errorf("new completion queue", "completion queue of %d entries: must be at least 1", c.Entries)
	}
	q := &compQueue{dev: d, entries: c.Entries, retry: netsim.Never}
	d.cqs = append(d.cqs, q)
	return q, nil
}

func (c *compQueue) push(x backend.Completion, q *QP) {
	if c.needsEntry(&x) {
		if c.counted == c.entries {
			// What a NIC reports as a fatal event of the queue.
			c.failed = c.dev.errorf("poll", "completion queue overrun: more receives and signalled sends were posted than CQConfig.Entries")
		}
		c.counted++
	}
	if x.Kind != backend.KindSent && x.Kind != backend.KindTrimmed {
		c.bytes += units.Bytes(x.Len)
	}
	c.waiting.Push(completion{x, q})
	c.dev.world.news = true
}

func (c *compQueue) needsEntry(x *backend.Completion) bool {
	return x.Kind == backend.KindSent || c.dev.world.cfg.NeedsReceives && !ownKind(x.Kind)
}

// Poll returns what has come about; it advances nothing.
func (c *compQueue) Poll(_ units.Instant, dst []backend.Completion) (int, error) {
	c.hide()
	if c.closed {
		return 0, backend.ErrClosed
	}
	if c.failed != nil {
		return 0, c.failed
	}
	if c.retry <= c.dev.world.Now {
		c.retry = netsim.Never
	}
	n := min(len(dst), c.waiting.Len())
	for i := range n {
		x := c.waiting.Pop()
		c.settle(&x)
		if x.Kind == backend.KindDatagram {
			c.shown = append(c.shown, uint32(x.WRID))
		}
		dst[i] = x.Completion
	}
	return n, nil
}

// settle undoes what push has counted.
func (c *compQueue) settle(x *completion) {
	if c.needsEntry(&x.Completion) {
		c.counted--
	}
	switch x.Kind {
	case backend.KindSent, backend.KindTrimmed:
	case backend.KindCongestion:
		x.qp.notified = false
	default:
		c.bytes -= units.Bytes(x.Len)
		x.qp.unpolled--
	}
}

// hide ends the validity of the datagrams of the last Poll.
func (c *compQueue) hide() {
	for _, i := range c.shown {
		c.dev.world.Release(i)
	}
	c.shown = c.shown[:0]
}

func (c *compQueue) Datagram(x *backend.Completion) []byte {
	return c.dev.world.slab[uint32(x.WRID)].Data
}

// Next is the present while completions wait, and when a refused post may succeed; packets in flight
// are the affair of the network.
func (c *compQueue) Next() units.Instant {
	if c.waiting.Len() > 0 {
		return c.dev.world.Instant()
	}
	return c.retry.Instant()
}

func (c *compQueue) Wait(units.Duration) error { return ErrVirtual }

func (c *compQueue) Wake() {}

func (c *compQueue) Close() error {
	if c.closed {
		return nil
	}
	if c.qps > 0 {
		return c.dev.errorf("close", "completion queue is in use by %d queue pairs: close them first", c.qps)
	}
	c.hide()
	c.closed = true
	d := c.dev
	d.cqs = slices.DeleteFunc(d.cqs, func(x *compQueue) bool { return x == c })
	return nil
}

// forget takes out the completions of a queue pair that is being closed.
func (c *compQueue) forget(q *QP) {
	c.waiting.DeleteFunc(func(x *completion) bool {
		if x.qp != q {
			return false
		}
		c.settle(x)
		if x.Kind == backend.KindDatagram {
			c.dev.world.Release(uint32(x.WRID))
		}
		return true
	})
}
