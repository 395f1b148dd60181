// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"cmp"
	"runtime"
	"time"

	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
)

// closeLimit bounds Close: a fence that isn't down by then is reported.
const closeLimit = time.Second

// beginClose refuses posts, marks every message closed and revokes all
// addresses; mu is held.
func (q *QP) beginClose() {
	if q.state() >= qpClosing {
		return
	}
	q.enter(qpClosing)
	for _, m := range q.recvs {
		m.complete()
	}
	q.kick()
}

// startClose begins to close with a reason that handles will show; mu is held.
func (q *QP) startClose(err error) {
	if q.err == nil {
		q.err = &OpError{Op: "use", Object: q.name, Err: cmp.Or(err, ErrClosed)}
	}
	q.beginClose()
	q.wakeWaiters()
}

// Close ends the QP: posts are refused, every message is closed and its address
// revoked; when no byte can land any more the queue pairs are destroyed and the
// handles fail with ErrClosed. It is idempotent and takes about a second at most,
// with a dead peer too. If the fence of a receive can't be had in that time, Close
// says so with ErrBusy. The fence is looked at again by the Endpoint's workers, by
// Done and Wait of the receive, by MR.Close, and when Close is called again.
//
// A Driver can't call it: it returns ErrNotSupported.
func (q *QP) Close() error {
	if inDriver() {
		return blockingInDriver("close", q.name, "call Fail, and Close from another goroutine")
	}
	return q.closeBy(time.Now().Add(closeLimit))
}

func (q *QP) closeBy(deadline time.Time) error {
	q.Fail(ErrClosed)
	err := q.awaitFences(deadline)
	q.mu.Lock()
	if q.state() < qpDead {
		q.finishClose()
	}
	if q.state() == qpDead {
		q.enter(qpLingering)
	}
	leaves := q.tryLeave()
	q.wakeWaiters()
	q.mu.Unlock()
	if leaves {
		q.leave()
	}
	q.notified.Do(q.notifyDriver)
	return err
}

// tryLeave reports, once, that a closed QP can be taken out of its Endpoint because
// its last fence is down; mu is held.
func (q *QP) tryLeave() bool {
	if q.state() != qpLingering || len(q.closing) > 0 {
		return false
	}
	q.enter(qpGone)
	if q.connCheck != nil {
		q.releaseConnCheck()
	}
	return true
}

// reapFences finishes receives of a QP that has been destroyed and reports whether there
// are any left: its worker may have stopped. mu is held.
func (q *QP) reapFences() (left bool) {
	if q.state() < qpDead || len(q.closing) == 0 {
		return false
	}
	q.checkFences(q.ep.Now())
	return len(q.closing) > 0
}

// tryFinish destroys the queue pairs of a closing QP once its fences are down; mu is held.
func (q *QP) tryFinish() bool {
	if q.state() != qpClosing || len(q.closing) > 0 {
		return false
	}
	q.finishClose()
	return true
}

// awaitFences runs the fences down; the workers leave their batches by themselves.
func (q *QP) awaitFences(deadline time.Time) error {
	for i := 0; ; i++ {
		q.mu.Lock()
		q.checkFences(q.ep.Now())
		left := len(q.closing)
		q.mu.Unlock()
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return &OpError{Op: "close", Object: q.name, Err: ErrBusy,
				Detail: "the device did not confirm in time that nothing can be written any more",
				Fix:    "keep the receive buffers mapped until the device is closed"}
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// finishClose destroys the queue pairs, which flushes their sends; mu is held.
func (q *QP) finishClose() {
	q.enter(qpDead)
	q.closeDevice()
	for _, m := range q.sends {
		m.inflight, m.queue = 0, nil
		if m.err == nil {
			m.err = q.err
		}
		if m.mr != nil {
			m.mr.Release()
		}
		m.enter(sendDone)
	}
	clear(q.sends)
	q.sending, q.pendFlush = nil, nil
	if q.connCheck != nil && len(q.closing) == 0 {
		q.releaseConnCheck()
	}
}

// closeDevice destroys what the device has of the QP. Its caller has locked the QP, or not shown it to anybody yet, as NewQP.
func (q *QP) closeDevice() {
	for _, ch := range q.chans {
		if ch.dev != nil {
			_ = ch.dev.Close()
		}
		ch.batch = nil
		ch.injections.Reset()
		q.home.credits.Add(int64(ch.signals))
		ch.signals = 0
		ch.done = ch.posted
	}
	if q.table != nil {
		_ = q.table.Close()
	}
	if q.peer != nil {
		_ = q.ep.dev.CloseAddress(q.ah)
	}
}

// leave takes the QP out of its Endpoint.
func (q *QP) leave() {
	e := q.ep
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.qps, q.id)
	e.routes.Lock()
	delete(e.byConn, q.id)
	e.routes.Unlock()
	e.drop(q)
	q.kick() // so that it isn't in the timers any more
}

// Outstanding encodes the frames that the peer has not acknowledged: COMPLETED, END and the
// like. Whoever holds a reliable connection to the peer passes it to the peer's
// Deliver before closing.
func (q *QP) Outstanding() []byte {
	q.lock()
	defer q.mu.Unlock()
	if q.sess == nil {
		return nil
	}
	return q.sess.Outstanding(nil)
}

// mostOutstanding is how many frames for each slot a peer can't have unacknowledged: overdue and mostAhead keep it below. A QP's worker, and so
// all QPs that are at home there, wait while they are handled.
const mostOutstanding = 32

// Deliver handles the frames that the peer's Outstanding encoded, and ignores what is beyond all that it can have to say.
func (q *QP) Deliver(b []byte) {
	q.lock()
	defer q.mu.Unlock()
	if q.sess == nil || q.state() >= qpClosing {
		return
	}
	r := wire.NewReader(b)
	var f wire.Frame
	now := q.ep.Now()
	for n := mostOutstanding * q.tableCfg.Slots; n > 0 && r.Next(&f); n-- {
		if f.Type <= wire.TypeCompleted {
			q.onFrame(now, &f)
		}
	}
	q.kick()
}
