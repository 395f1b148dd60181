// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A writeState is the sending part of a UC queue pair.
type writeState struct {
	records []writeRecord
	// out are the writes that are due, numbers their records.
	out     []backend.Write
	numbers []uint32
}

type writeRecord struct {
	w backend.Write
	// visits is how often the record comes up yet, and pending how many
	// copies the real device has yet to take.
	visits, pending int8
	lost            bool
	accepted        bool
	status          backend.Status
	// order is the number of the last copy among QP.posted.
	order uint64
}

func (s *writeState) at(i uint64) *writeRecord { return &s.records[i&uint64(len(s.records)-1)] }

// A WRID of the real device holds the QP, the order among its writes, and
// whether the write was signalled, since failed ones complete in any case.
const (
	orderBits = 39
	orderMask = 1<<orderBits - 1
	maxQPs    = 1 << (63 - orderBits)
)

func packWRID(index uint32, order uint64, signaled bool) uint64 {
	v := uint64(index)<<(orderBits+1) | order&orderMask<<1
	if signaled {
		v |= 1
	}
	return v
}

func unpackWRID(v uint64) (index uint32, order uint64, signaled bool) {
	return uint32(v >> (orderBits + 1)), v >> 1 & orderMask, v&1 != 0
}

func (q *queuePair) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	c, d := q.cq, q.cq.dev
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := q.postable(backend.UC); err != nil {
		return 0, err
	}
	room := q.room()
	if room < len(w) {
		w, c.refused = w[:room], true
	}
	t := d.entry(now)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range w {
		if units.Bytes(w[i].Length) > q.cfg.MTU {
			c.posted()
			return i, operr.New("post", "linkemu", "write of %d bytes exceeds the MTU of %d", w[i].Length, int64(q.cfg.MTU))
		}
		f := d.carry(t, units.Bytes(w[i].Length), q.cfg.Channel)
		q.writes.records = grow(q.writes.records, q.head, q.tail)
		r := q.writes.at(q.tail)
		*r = writeRecord{w: w[i], pending: q.schedule(q.tail, &f)}
		r.w.Marked = w[i].Marked || f.Marked
		r.visits, r.lost = max(1, r.pending), r.pending == 0
		q.tail++
	}
	c.posted()
	return len(w), nil
}

func (q *queuePair) postable(t backend.QPType) error {
	switch {
	case q.closed || q.cq.dev.closed.Load():
		return backend.ErrClosed
	case q.cfg.Type != t:
		return operr.New("post", "linkemu", "writes are posted to UC and datagrams to UD queue pairs")
	case t == backend.UC && !q.connected:
		return operr.New("post", "linkemu", "the queue pair is not connected")
	case q.cfg.SendDepth == 0:
		return operr.New("post", "linkemu", "the queue pair was made with a SendDepth of 0")
	}
	return nil
}

func (s *writeState) due(i uint32) units.Bytes {
	r := s.at(uint64(i))
	r.visits--
	if r.lost {
		return 0
	}
	s.out = append(s.out, r.w)
	s.numbers = append(s.numbers, i)
	return units.Bytes(r.w.Length)
}

// flushWrites passes writes on in batches of at most half the queue pair's depth,
// the last of each signalled: where the real device frees its queue by reported
// sends only, one is then always to come. compQueue.mu is held.
func (q *queuePair) flushWrites(now units.Instant) {
	s, batch := &q.writes, max(1, q.cfg.SendDepth/2)
	passed := 0
	for passed < len(s.out) && q.cq.signals < maxSignals {
		w := s.out[passed:min(passed+batch, len(s.out))]
		for i := range w {
			w[i].Signaled = i == len(w)-1
			w[i].WRID = packWRID(q.index, q.posted+uint64(i), w[i].Signaled)
		}
		n, err := q.inner.PostWrites(now, w)
		q.onAccepted(s.numbers[passed : passed+n])
		passed += n
		if n == len(w) {
			q.cq.signals++
			q.signals++
			continue
		}
		if err == nil {
			break // no room
		}
		s.at(uint64(s.numbers[passed])).refuse()
		passed++
	}
	s.out = s.out[:copy(s.out, s.out[passed:])]
	s.numbers = s.numbers[:copy(s.numbers, s.numbers[passed:])]
}

// onAccepted records that the real device has accepted copies of these records.
func (q *queuePair) onAccepted(numbers []uint32) {
	for _, i := range numbers {
		r := q.writes.at(uint64(i))
		r.pending--
		r.accepted, r.order = true, q.posted
		q.posted++
	}
}

// refuse records that the real device reported an error for a copy of r.
func (r *writeRecord) refuse() {
	r.pending--
	r.status = backend.StatusError
}

// failed records the outcome of the write that was the order-th to be passed on.
func (q *queuePair) failed(order uint64, status backend.Status) {
	for i := q.head; i < q.tail; i++ {
		if r := q.writes.at(i); r.accepted && r.order == order {
			r.status = status
			return
		}
	}
}

// settleWrites frees the records of writes that are done, in order, and reports the signalled ones; compQueue.mu is held.
func (q *queuePair) settleWrites() {
	for ; q.head < q.tail; q.head++ {
		r := q.writes.at(q.head)
		if r.visits > 0 || r.pending > 0 || r.accepted && r.order >= q.done {
			return
		}
		if r.w.Signaled || r.status != backend.StatusOK {
			q.cq.ready.Push(sentEntry{backend.Completion{
				WRID: r.w.WRID, Cookie: q.cfg.Cookie, Len: r.w.Length, Kind: backend.KindSent, Status: r.status,
			}, q})
		}
	}
}
