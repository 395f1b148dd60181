// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A datagramState is the sending part of a UD queue pair.
type datagramState struct {
	records []datagramRecord
	numbers []uint32           // of the records that are due
	out     []backend.Datagram // what they make for the real device
}

type datagramRecord struct {
	to   *address
	data []byte // keeps its memory for the next use of the record
	// visits is how often the record comes up yet, pending how many copies the
	// real device has yet to take.
	visits, pending int8
	lost            bool
}

func (s *datagramState) at(i uint64) *datagramRecord { return &s.records[i&uint64(len(s.records)-1)] }

func (q *queuePair) PostDatagrams(now units.Instant, x []backend.Datagram) (int, error) {
	c, d := q.cq, q.cq.dev
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := q.postable(backend.UD); err != nil {
		return 0, err
	}
	room := q.room()
	if room < len(x) {
		x, c.refused = x[:room], true
	}
	t, most := d.entry(now), min(q.cfg.MTU, d.caps.MaxDatagram)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range x {
		size := units.Bytes(len(x[i].Data))
		if size > most {
			c.posted()
			return i, operr.New("post datagrams", "linkemu", "datagram of %d bytes: at most %d", int64(size), int64(most))
		}
		to := d.addresses.Get(uint32(x[i].To))
		if to == nil {
			c.posted()
			return i, operr.New("post datagrams", "linkemu", "datagram to unknown address handle %d", x[i].To)
		}
		f := d.carry(t, size, q.cfg.Channel)
		q.datagrams.records = grow(q.datagrams.records, q.head, q.tail)
		r := q.datagrams.at(q.tail)
		r.to, r.data = to, append(r.data[:0], x[i].Data...)
		r.pending = q.schedule(q.tail, &f)
		r.visits, r.lost = max(1, r.pending), r.pending == 0
		q.tail++
	}
	c.posted()
	return len(x), nil
}

func (s *datagramState) due(i uint32) units.Bytes {
	r := s.at(uint64(i))
	r.visits--
	if r.lost {
		return 0
	}
	s.numbers = append(s.numbers, i)
	return units.Bytes(len(r.data))
}

func (q *queuePair) flushDatagrams(now units.Instant) {
	s, d := &q.datagrams, q.cq.dev
	d.addressMu.RLock()
	defer d.addressMu.RUnlock()
	left := s.numbers
	s.numbers, s.out = left[:0], s.out[:0]
	for _, i := range left {
		r := s.at(uint64(i))
		if r.to.closed {
			d.refused(units.Bytes(len(r.data)))
			r.pending--
			continue
		}
		s.numbers = append(s.numbers, i)
		s.out = append(s.out, backend.Datagram{To: r.to.real, Data: r.data})
	}
	if len(s.out) == 0 {
		return
	}
	n, err := q.inner.PostDatagrams(now, s.out)
	if err != nil {
		// The device will never take this one; datagrams may be lost.
		d.refused(units.Bytes(len(s.out[n].Data)))
		n++
	}
	for _, i := range s.numbers[:n] {
		s.at(uint64(i)).pending--
	}
	s.numbers = s.numbers[:copy(s.numbers, s.numbers[n:])]
}

func (q *queuePair) settleDatagrams() {
	for ; q.head < q.tail; q.head++ {
		if r := q.datagrams.at(q.head); r.visits > 0 || r.pending > 0 {
			return
		}
	}
}

// refused counts a datagram that the real device did not take.
func (d *Device) refused(payload units.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.countDrop(backend.DropQueueFull, payload)
}
