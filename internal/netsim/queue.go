// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math"

	"github.com/sdr-rdma/go-sdr/fabric/des"
)

// A Queue holds events, which are numbers to it, in the order of their time, and of scheduling
// among those of one time: packets that leave a link in one instant arrive in the order in which
// they left. It is a des.Queue whose keys count what has been scheduled. Push and Pop allocate only
// when it grows beyond its largest size so far.
type Queue struct {
	q    *des.Queue
	keys uint32 // how many have been given out
	last Time   // of the event popped last
}

// NewQueue makes an empty queue.
func NewQueue() *Queue { return &Queue{q: des.NewQueue(des.Config{})} }

// Len is the number of events scheduled.
func (q *Queue) Len() int { return q.q.Len() }

// Next is the time of the earliest event, Never when there is none.
func (q *Queue) Next() Time { return q.q.Next() }

// Push schedules e. A time before that of the event popped last counts as the latter.
func (q *Queue) Push(at Time, e uint32) {
	if q.keys == math.MaxUint32 {
		q.renumber()
	}
	q.q.Push(des.Event{T: max(at, q.last), Key: q.keys, Arg: e})
	q.keys++
}

// Pop removes and returns the earliest event. The queue must not be empty.
func (q *Queue) Pop() (Time, uint32) {
	e, _ := q.q.Pop(Never)
	q.last = e.T
	return e.T, e.Arg
}

// renumber gives what is scheduled the first keys, in its order, so that there are keys left.
func (q *Queue) renumber() {
	old := q.q
	q.q, q.keys = des.NewQueue(des.Config{}), 0
	for {
		e, ok := old.Pop(Never)
		if !ok {
			return
		}
		e.Key = q.keys
		q.q.Push(e)
		q.keys++
	}
}
