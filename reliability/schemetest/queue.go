// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
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
)

// An event happens to a transfer at a time; seq orders those of one time.
type event struct {
	at       units.Instant
	seq      uint64
	kind     eventKind
	transfer int
	unit     scheme.Unit
	channel  int
	order    uint64
	sender   bool
	job      uint32
	frame    []byte
}

// An eventQueue is a binary heap of values.
type eventQueue struct {
	heap []event
	seq  uint64
}

func (q *eventQueue) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *eventQueue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *eventQueue) next() units.Instant {
	if len(q.heap) == 0 {
		return units.Never
	}
	return q.heap[0].at
}

func (q *eventQueue) pop() event {
	top := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && q.less(down+1, down) {
			down++
		}
		if !q.less(down, i) {
			return top
		}
		q.heap[i], q.heap[down] = q.heap[down], q.heap[i]
		i = down
	}
}
