// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/timerslack"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// retryAfter is when a post that found a socket's buffer full is worth another try.
const retryAfter = 20 * units.Microsecond

// maxEntries bounds CQConfig.Entries.
const maxEntries = 1 << 24

// cq is a completion queue. rx is the socket that it reads, or nil when another queue reads it.
type cq struct {
	d    *Device
	rx   *receiver
	sent sentQueue
	// worker is the number of the worker that receives for queue pairs whose RecvCQ this is.
	worker int
	// second: another queue reads the socket of this one's worker, and reports what comes for this one's queue pairs as if it were its own.
	second bool
	qps    int // guarded by Device.mu
	// retry is when a goroutine that found a socket's buffer full should post again, 0 when there is none.
	retry  atomic.Int64
	closed atomic.Bool

	wake waker
	fds  [2]unix.PollFd
}

// NewCQ makes a completion queue. The first one for each worker receives from its socket. There may be
// more workers than sockets; their queues report sends only.
func (d *Device) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	switch {
	case c.Worker < 0 || c.Worker > 0 && c.Worker >= c.Workers:
		return nil, operr.New("new completion queue", "userroce", "completion queue of worker %d of %d", c.Worker, c.Workers)
	case c.Entries < 1 || c.Entries > maxEntries:
		return nil, operr.New("new completion queue", "userroce", "completion queue with %d entries: choose 1 to %d", c.Entries, maxEntries)
	}
	q := &cq{d: d, worker: c.Worker % len(d.receivers)}
	q.sent.init(c.Entries)
	if err := q.wake.open(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		q.wake.close()
		return nil, backend.ErrClosed
	}
	q.second = c.Worker < len(d.receivers) && d.receivers[c.Worker].owner != nil
	if c.Worker < len(d.receivers) && !q.second {
		q.rx = d.receivers[c.Worker]
		q.rx.reset()
		q.rx.owner = q
	}
	d.cqs[q] = struct{}{}
	return q, nil
}

// Poll reads the socket, places payloads, and stores completions into dst.
func (q *cq) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	if t := q.retry.Load(); t != 0 && t <= int64(now) {
		q.retry.CompareAndSwap(t, 0) // unless another post has found the buffer full meanwhile
	}
	if q.rx == nil {
		if q.closed.Load() {
			return 0, backend.ErrClosed
		}
		return q.sent.pop(dst), nil
	}
	q.rx.epoch.enter()
	defer q.rx.epoch.leave()
	// closed must be read after enter: shut sets it and then waits until the epoch is even.
	if q.closed.Load() {
		return 0, backend.ErrClosed
	}
	n := q.sent.pop(dst)
	m, err := q.rx.poll(now, dst[n:])
	return n + m, err
}

// Datagram returns the payload of a datagram that the latest Poll reported.
func (q *cq) Datagram(c *backend.Completion) []byte {
	if q.rx == nil {
		return nil
	}
	return q.rx.datagramPayload(c.WRID, c.Len)
}

// Next is when Poll should be called although nothing has arrived.
func (q *cq) Next() units.Instant {
	if q.sent.waiting() || q.rx != nil && q.rx.pending() {
		return 0
	}
	if t := q.retry.Load(); t != 0 {
		return units.Instant(t)
	}
	return units.Never
}

// retryLater makes Next say that a post is worth another try.
func (q *cq) retryLater(now units.Instant) { q.retry.Store(int64(now.Add(retryAfter))) }

// Wait blocks until a packet arrives, a send completes, Wake is called or d has passed.
func (q *cq) Wait(d units.Duration) error {
	if q.closed.Load() {
		return backend.ErrClosed
	}
	if d <= 0 || !q.wake.beginWait() {
		return nil
	}
	defer q.wake.endWait()
	// closed must be read after beginWait: shut sets it, then wakes, then waits for endWait.
	if q.closed.Load() {
		return backend.ErrClosed
	}
	if q.sent.waiting() || q.rx != nil && q.rx.pending() {
		return nil
	}
	fds := q.fds[:1]
	fds[0] = unix.PollFd{Fd: int32(q.wake.fd), Events: unix.POLLIN}
	if q.rx != nil {
		fds = q.fds[:2]
		fds[1] = unix.PollFd{Fd: int32(q.rx.fd), Events: unix.POLLIN}
	}
	if d < units.Millisecond { // till something is due, and not only till someone looks after things
		timerslack.Remove()
	}
	timeout := unix.NsecToTimespec(int64(d))
	fds[0].Revents = 0
	if _, err := unix.Ppoll(fds, &timeout, nil); err != nil && err != unix.EINTR {
		return operr.Wrap("wait for packets", "userroce", err)
	}
	if fds[0].Revents != 0 {
		q.wake.drain()
	}
	return nil
}

// Wake makes a present or the next Wait return.
func (q *cq) Wake() { q.wake.wake() }

// Close releases the queue. It fails while queue pairs refer to it.
func (q *cq) Close() error {
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.qps > 0 {
		return operr.New("close completion queue", "userroce", "it has %d open queue pairs", q.qps)
	}
	q.shut()
	return nil
}

// shut closes q when no Poll or Wait is running any more. Device.mu is held.
func (q *cq) shut() {
	if q.closed.Swap(true) {
		return
	}
	q.wake.close()
	if q.rx != nil {
		for i := 0; q.rx.epoch.inside(); i++ {
			backOff(i)
		}
		q.rx.owner = nil
	}
	delete(q.d.cqs, q)
}
