// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A queue pair decides what to send on its home worker. Giving packets to a device that copies them takes far longer: a system call
// for each batch, with checksums of all of it. So where an Endpoint has several workers, the channels of a queue pair are divided
// among them, in turn from the home on, and the home hands large batches of the others' channels over. Of one channel one batch is
// with its worker at a time, so packets of a channel keep their order.

// leastHanded is how many packets a batch has that is handed over: fewer take less time than to wake a worker.
const leastHanded = 16

// retryPost is when a worker tries again to post what the device had no room for.
const retryPost = 20 * units.Microsecond

// sharesPosts reports whether the channels' batches are posted by several workers. A device that reads memory later takes a batch with
// the write of a doorbell.
func (q *QP) sharesPosts() bool { return q.caps.Inline && !q.ep.manual && len(q.ep.workers) > 1 }

// posterOf is the worker that posts large batches of the channels with an index, nil for the home.
func (q *QP) posterOf(index int) *worker {
	if !q.sharesPosts() {
		return nil
	}
	all := q.ep.workers
	if w := all[(q.home.engine.ID+index)%len(all)]; w != q.home {
		return w
	}
	return nil
}

// A handover is the batches that a worker is to post for queue pairs that are at home elsewhere. Their home workers add them.
type handover struct {
	some  atomic.Bool // lets the worker look without the lock
	mu    sync.Mutex
	added []*channel // +checklocks:mu
	// posted counts what the worker has posted.
	posted atomic.Uint64
	// The worker's own: those that it has popped and not posted yet.
	left []*channel
}

func (h *handover) add(ch *channel) {
	h.mu.Lock()
	h.added = append(h.added, ch)
	h.some.Store(true)
	h.mu.Unlock()
}

// pop moves what was added to left.
func (h *handover) pop() {
	if !h.some.Load() {
		return
	}
	h.mu.Lock()
	h.left = append(h.left, h.added...)
	clear(h.added)
	h.added = h.added[:0]
	h.some.Store(false)
	h.mu.Unlock()
}

// waits reports whether there is something to post.
func (h *handover) waits() bool { return h.some.Load() || len(h.left) > 0 }

// handOver gives the channel's batch to the worker that posts for it, and reports whether it did; mu is held.
func (q *QP) handOver(ch *channel) bool {
	if ch.poster == nil || ch.handed.busy || len(ch.batch) < leastHanded {
		return false
	}
	if cap(ch.handed.writes) == 0 {
		ch.handed.writes = make([]backend.Write, 0, postBatch)
	}
	ch.batch, ch.handed.writes = ch.handed.writes[:0], ch.batch
	ch.handed.busy = true
	ch.poster.handover.add(ch)
	ch.poster.kick()
	return true
}

// A handedBatch is a channel's batch that another worker posts. While it is busy, which QP.mu guards, the writes are that
// worker's; else they are memory for the next batch.
type handedBatch struct {
	busy   bool
	writes []backend.Write
}

// postHanded posts what was handed over, and returns when to try again what the device had no room for.
func (w *worker) postHanded(now units.Instant) (next units.Instant, busy bool) {
	h := &w.handover
	h.pop()
	if len(h.left) == 0 {
		return units.Never, false
	}
	kept := h.left[:0]
	for _, ch := range h.left {
		n, err := ch.dev.PostWrites(now, ch.handed.writes)
		if !ch.qp.postedElsewhere(ch, n, err) {
			kept = append(kept, ch)
		} else {
			h.posted.Add(1)
		}
		busy = busy || n > 0
	}
	clear(h.left[len(kept):])
	if h.left = kept; len(kept) > 0 {
		return now.Add(retryPost), busy
	}
	return units.Never, busy
}

// postedElsewhere books that another worker has given the first n writes of the handed batch to the device, and reports whether
// that was all, or there is no use in going on.
func (q *QP) postedElsewhere(ch *channel, n int, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch b := &ch.handed; {
	case q.state() >= qpDead: // what was under way has been settled
	case err != nil:
		q.fail(&OpError{Op: "post writes", Object: q.name, Err: err})
	default:
		ch.flushed += uint64(n)
		q.wasSent(ch, ch.flushed)
		if b.writes = b.writes[:copy(b.writes, b.writes[n:])]; len(b.writes) > 0 {
			return false
		}
	}
	ch.handed.busy = false
	q.kick() // a message may have ended, and there may be more
	return true
}
