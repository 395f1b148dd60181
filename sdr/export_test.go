// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/sdr/internal/control"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
)

// Held is how much a QP remembers that its peer has a say in.
type Held struct {
	Grants, Beyond, Sends, Recvs, Events, Arena int
	// Unacked counts STARTs, ENDs and ABORTs that the peer has not acknowledged.
	CTS, Completed, Unacked int
	// Reliable and ReliableBytes are frames of the driver's that the peer has not acknowledged.
	Reliable, ReliableBytes int
}

// Held looks at q.
func (q *QP) Held() Held {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Held{
		Grants: len(q.grants), Beyond: len(q.beyond), Sends: len(q.sends), Recvs: len(q.recvs),
		Events: len(q.events), Arena: len(q.arena),
		CTS: q.sess.UnackedOf(wire.TypeCTS), Completed: q.sess.UnackedOf(wire.TypeCompleted),
		Unacked:  q.sess.UnackedOf(wire.TypeStart) + q.sess.UnackedOf(wire.TypeEnd) + q.sess.UnackedOf(wire.TypeAbort),
		Reliable: q.sess.UnackedOf(wire.TypeReliable), ReliableBytes: q.sess.ReliableBytes(),
	}
}

// BrokenPause is the least time between two looks at a device that has failed.
const BrokenPause = brokenPause

// MaxSleep is how long a worker sleeps at most.
const MaxSleep = maxSleep

// Limits of what waits for a driver.
const (
	MaxEvents = maxEvents
	MaxArena  = maxArena

	MaxReliable      = control.MaxReliable
	MaxReliableBytes = control.MaxReliableBytes
)

// Batch brings the QP's home worker into a batch, and Leave out of it.
func (q *QP) Batch() (leave func()) {
	q.home.engine.Enter()
	return q.home.engine.Leave
}

// AwaitedBy makes the QP's home worker one that a caller runs until done is closed.
func (q *QP) AwaitedBy(done <-chan struct{}) { q.home.turn.awaited = done }

// ServedCaller makes the QP's home worker one that a caller runs who has what he waited for, and is expected back.
func (q *QP) ServedCaller() {
	done := make(chan struct{})
	close(done)
	q.AwaitedBy(done)
	q.home.turn.absence.Store(0)
}

// WaitsFor is how that caller begins to wait for something else. It reports whether something was held back for him.
func (q *QP) WaitsFor(done <-chan struct{}) bool {
	q.AwaitedBy(done)
	return q.home.sendHeldBack()
}

// Frontier is the next sequence to post, and the first not granted.
func (q *QP) Frontier() (nextRecv, granted uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.nextRecv, q.granted
}

// HomeChannel is Port.HomeChannel, from anywhere.
func (q *QP) HomeChannel(s SendStream, packet int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.homeChannel(s.m, packet)
}

// ReceiveFrames gives q a datagram of control frames as if its peer had sent it.
func (q *QP) ReceiveFrames(number uint32, frames []byte) {
	b := wire.AppendHeader(nil, wire.Header{ConnID: q.id, Number: number})
	q.ep.onDatagram(q.ep.Now(), append(b, frames...))
}

// PublishPackets does the first half of what a worker does with packets of a message: their chunks are
// not counted yet.
func (h RecvHandle) PublishPackets(word int, bits uint64) {
	h.m.msg.Tracker.Packets().First.Publish(word, bits)
}

// Outcome is how the message was completed.
func (h RecvHandle) Outcome() Outcome { return h.m.outcome }

// Check reports what can't be of a QP at any time, and of one that is closed what it still holds.
func (q *QP) Check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	signals := 0
	for _, ch := range q.chans {
		if ch.done > ch.posted || ch.flushed > ch.posted || ch.signals < 0 {
			return fmt.Errorf("%s, channel %d: posted %d, flushed %d, done %d, signals %d", q.name, ch.index, ch.posted, ch.flushed, ch.done, ch.signals)
		}
		signals += ch.signals
		if inFlight := ch.posted - ch.done; q.state() == qpGone && (inFlight > 0 || ch.injections.Len() > 0) {
			return fmt.Errorf("%s is closed: %d packets in flight", q.name, inFlight)
		}
	}
	if held := len(q.sends) + len(q.recvs) + len(q.closing) + len(q.sending) + len(q.waiters) + signals; q.state() == qpGone && (held > 0 || q.connCheck != nil) {
		return fmt.Errorf("%s is closed: %d sends, %d receives, %d fences, %d to inject, %d waiting, %d signals, probe %t", q.name,
			len(q.sends), len(q.recvs), len(q.closing), len(q.sending), len(q.waiters), signals, q.connCheck != nil)
	}
	return nil
}

// CheckIdle reports what an Endpoint without QPs still holds: credits of completion queues, cookies,
// queue pairs at home.
func (e *Endpoint) CheckIdle(cookies int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range e.workers {
		if left := w.credits.Load(); left != int64(e.cfg.CQEntries)/2 {
			return fmt.Errorf("worker %d has %d of %d credits", i, left, e.cfg.CQEntries/2)
		}
	}
	free := len(e.free)
	for _, r := range e.retired {
		free += len(r.cookies)
	}
	if all := int(e.cookies); len(e.qps)+len(e.byConn) > 0 || free != all || all > cookies {
		return fmt.Errorf("%d queue pairs, %d routes, %d of %d cookies free, at most %d expected", len(e.qps), len(e.byConn), free, all, cookies)
	}
	return nil
}

// Refs is how many messages hold m.
func (m *MR) Refs() int64 { return m.refs.Load() }

// Slabs is how many bitmaps wait in the pool.
func (e *Endpoint) Slabs() (n int) {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	for _, class := range e.pool.free {
		n += len(class)
	}
	return n
}

// JumpTo has a QP that is connected and idle go on with message n in both directions.
func JumpTo(q *QP, n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nextRecv, q.unacked, q.nextSend, q.granted = n, n, n, n
	clear(q.endTimes)
}
