// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// An eventKind says what happens.
type eventKind uint8

const (
	unitArrives eventKind = iota
	frameForSender
	frameForReceiver
	startArrives
	pingReturns
	jobDone
	transferDone
	dataGranted
	parityGranted
	startAcked
	reliableDue
	reliableArrives
	reliableAcked
)

// An event happens to a transfer.
type event struct {
	kind     eventKind
	transfer int
	unit     scheme.Unit
	channel  int
	order    uint64
	sender   bool
	job      uint32
	frame    []byte
}

// An eventQueue holds events in the order of their times, and of scheduling among those of one time.
type eventQueue struct {
	queue *netsim.Queue
	slab  []event
	free  []uint32
}

func (q *eventQueue) push(at units.Instant, e event) {
	i := uint32(len(q.slab))
	if n := len(q.free); n > 0 {
		i, q.free = q.free[n-1], q.free[:n-1]
		q.slab[i] = e
	} else {
		q.slab = append(q.slab, e)
	}
	q.queue.Push(netsim.At(at), i)
}

func (q *eventQueue) next() units.Instant { return q.queue.Next().Instant() }

func (q *eventQueue) pop() event {
	_, i := q.queue.Pop()
	q.free = append(q.free, i)
	e := q.slab[i]
	q.slab[i] = event{} // the frame of one that has been handled is garbage
	return e
}
