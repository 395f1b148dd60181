// SPDX-License-Identifier: Apache-2.0

// Package arrivalstest watches what a device receives, so that tests can tell which transmission of each packet
// came first without asking those who are to count it.
package arrivalstest

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Watch notes the first arrival of each packet of data on the devices that it wraps, by the repeat number in
// its immediate (docs/wire.md, "Repeats"). It tells messages apart by their slots: it is good for as many
// messages as there are slots, of connections that have a Watch each.
type Watch struct {
	split dpa.Split
	mu    sync.Mutex
	first map[uint32]uint32 // slot and offset → number; +checklocks:mu
}

// New makes a Watch for connections with an immediate split.
func New(s dpa.Split) *Watch { return &Watch{split: s, first: map[uint32]uint32{}} }

// Wrap returns d, watched.
func (w *Watch) Wrap(d backend.Device) backend.Device {
	return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return &queue{q, w} })
}

// Needed is how many repeats it took to bring each packet once: the sum of the numbers of those that came
// first.
func (w *Watch) Needed() (n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, number := range w.first {
		n += uint64(number)
	}
	return n
}

// Most is how many repeats it took for those n packets that took most.
func (w *Watch) Most(n int) (sum uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var of [256]int
	for _, number := range w.first {
		of[number&0xff]++
	}
	for number := len(of) - 1; number > 0 && n > 0; number-- {
		k := min(n, of[number])
		sum += uint64(k) * uint64(number)
		n -= k
	}
	return sum
}

func (w *Watch) note(c *backend.Completion) {
	if c.Kind != backend.KindWrite || c.Status != backend.StatusOK || c.Len == 0 {
		return
	}
	packet := c.Imm >> w.split.FragmentBits
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.first[packet]; !ok {
		w.first[packet] = c.Imm & (1<<w.split.FragmentBits - 1)
	}
}

type queue struct {
	backend.CQ
	w *Watch
}

func (q *queue) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	n, err := q.CQ.Poll(now, dst)
	for i := range dst[:n] {
		q.w.note(&dst[i])
	}
	return n, err
}
