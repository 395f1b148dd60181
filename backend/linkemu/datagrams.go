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
	out     []backend.Datagram // due
	numbers []uint32           // their records
}

type datagramRecord struct {
	to   backend.AddressHandle
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
		f := d.carry(t, size, q.cfg.Channel)
		q.datagrams.records = grow(q.datagrams.records, q.head, q.tail)
		r := q.datagrams.at(q.tail)
		r.to, r.data = x[i].To, append(r.data[:0], x[i].Data...)
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
	s.out = append(s.out, backend.Datagram{To: r.to, Data: r.data})
	s.numbers = append(s.numbers, i)
	return units.Bytes(len(r.data))
}

func (q *queuePair) flushDatagrams(now units.Instant) {
	s := &q.datagrams
	if len(s.out) == 0 {
		return
	}
	n, err := q.inner.PostDatagrams(now, s.out)
	if err != nil {
		// The device will never take this one; datagrams may be lost.
		q.cq.dev.refused(units.Bytes(len(s.out[n].Data)))
		n++
	}
	for _, i := range s.numbers[:n] {
		s.at(uint64(i)).pending--
	}
	s.out = s.out[:copy(s.out, s.out[n:])]
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
