// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A queuePair keeps a record of each send from its post to its completion. The
// mutex of cq guards everything that changes.
type queuePair struct {
	cq    *compQueue // of its sends
	inner backend.QP
	cfg   backend.QPConfig
	index uint32 // in cq.qps

	closed    bool
	connected bool
	touched   bool // is in cq.touched

	// Records are numbered in the order of posting; those from head up to
	// tail are in use, at number modulo the length, a power of two that grows.
	head, tail uint64
	writes     writeState    // UC
	datagrams  datagramState // UD

	posted  uint64 // writes that the real device has taken
	done    uint64 // of these, how many it reads no longer
	signals int    // of these, how many it has yet to report
}

// NewQP implements backend.Device.
func (d *Device) NewQP(c backend.QPConfig) (backend.QP, error) {
	send, err := ours(d, c.SendCQ, "SendCQ")
	if err != nil {
		return nil, err
	}
	recv, err := ours(d, c.RecvCQ, "RecvCQ")
	if err != nil {
		return nil, err
	}
	if c.SendDepth < 0 || c.SendDepth > maxDepth {
		return nil, operr.New("new queue pair", "linkemu", "SendDepth of %d: must be between 0 and %d", c.SendDepth, maxDepth)
	}
	q := &queuePair{cq: send, cfg: c}
	c.SendCQ, c.RecvCQ = send.inner, recv.inner
	if q.inner, err = d.inner.NewQP(c); err != nil {
		return nil, err
	}
	send.mu.Lock()
	defer send.mu.Unlock()
	if len(send.qps) >= maxQPs {
		_ = q.inner.Close()
		return nil, operr.New("new queue pair", "linkemu", "%d queue pairs have been made on this completion queue: make another one", maxQPs)
	}
	q.index = uint32(len(send.qps))
	send.qps = append(send.qps, q)
	return q, nil
}

// maxDepth bounds the records of one QP.
const maxDepth = 1 << 20

// leastRecords is how many there is room for at first.
const leastRecords = 16

// grow makes room for record tail, where those from head on are in use. Memory follows use, because each QP of many channels is given the
// depth that all that is in flight on a long way takes.
func grow[R any](records []R, head, tail uint64) []R {
	if tail-head < uint64(len(records)) {
		return records
	}
	bigger := make([]R, max(leastRecords, 2*len(records)))
	for i := head; i != tail; i++ {
		bigger[i&uint64(len(bigger)-1)] = records[i&uint64(len(records)-1)]
	}
	return bigger
}

func (q *queuePair) Info() backend.QPInfo { return q.inner.Info() }

func (q *queuePair) Connect(peer backend.QPInfo) error {
	if err := q.inner.Connect(peer); err != nil {
		return err
	}
	q.cq.mu.Lock()
	defer q.cq.mu.Unlock()
	q.connected = true
	return nil
}

// Close gives up what has not been passed on.
func (q *queuePair) Close() error {
	c := q.cq
	c.mu.Lock()
	if !q.closed {
		q.closed = true
		c.ready.DeleteFunc(func(e *sentEntry) bool { return e.qp == q })
		c.forget(q)
		c.setNext()
	}
	c.mu.Unlock()
	return q.inner.Close()
}

// forget drops what c holds of q.
//
// c.mu is held.
func (c *compQueue) forget(q *queuePair) {
	c.qps[q.index] = nil
	c.signals -= q.signals
	q.signals = 0
	kept := c.touched[:0]
	for _, x := range c.touched {
		if x != q {
			kept = append(kept, x)
		}
	}
	clear(c.touched[len(kept):])
	c.touched = kept
}

// room is how many records are free.
func (q *queuePair) room() int { return q.cfg.SendDepth - int(q.tail-q.head) }

// schedule makes record i wait for its fate, and returns how often it will be
// passed on; compQueue.mu is held.
func (q *queuePair) schedule(i uint64, f *netsim.Fate) (copies int8) {
	c, p := q.cq, parcel{q.index, uint32(i)}
	if f.Outcome != netsim.Delivered {
		// It has to leave the queue like the others before its memory is free.
		c.waiting.Push(f.Left, c.parcels.put(p))
		return 0
	}
	c.waiting.Push(f.Arrive, c.parcels.put(p))
	if !f.Duplicated {
		return 1
	}
	c.waiting.Push(f.Again, c.parcels.put(p))
	return 2
}

// due takes the record whose low bits are i to the packets to be passed on, and
// returns its payload's length.
func (q *queuePair) due(i uint32) units.Bytes {
	if q.cfg.Type == backend.UC {
		return q.writes.due(i)
	}
	return q.datagrams.due(i)
}

// flush passes on what is due as far as the real device has room; compQueue.mu is held.
func (q *queuePair) flush(now units.Instant) {
	if q.cfg.Type == backend.UC {
		q.flushWrites(now)
	} else {
		q.flushDatagrams(now)
	}
	q.settle()
}

// left is how many packets are due and could not be passed on.
func (q *queuePair) left() int { return len(q.writes.out) + len(q.datagrams.numbers) }

// settle frees the records that nobody needs any more, in order; compQueue.mu is held.
func (q *queuePair) settle() {
	before := q.head
	if q.cfg.Type == backend.UC {
		q.settleWrites()
	} else {
		q.settleDatagrams()
	}
	if q.head != before {
		q.cq.roomMade()
	}
}
