// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A recvMsg is a posted receive until its fence is down. Its fields are guarded
// by QP.mu; msg has rules of its own.
type recvMsg struct {
	q       *QP
	seq     uint64
	msg     dpa.Message
	slab    []uint64
	mr      *MR
	label   Label
	length  units.Bytes // of the buffer
	stage   stage[recvState]
	outcome Outcome            // fixed when it is completed
	epochs  []uint64           // of the engine's threads when it was completed
	space   [maxWorkers]uint64 // for epochs
	err     error
	imm     uint32
	hasImm  bool
}

func (m *recvMsg) state() recvState { return m.stage.load() }

func (m *recvMsg) enter(s recvState) { m.stage.enter(recvMoves, s) }

// A RecvHandle is a posted receive. It is a small value; copies mean the same
// message. Its methods may be called by several goroutines at once, and after
// Complete, too: WaitArrived and Imm then return ErrCompleted, but WaitArrived nil
// where the message was whole, and Bitmap and Packets are views whose Err is ErrCompleted.
// The zero value is no message: compare with it, but call none of its methods.
type RecvHandle struct {
	m *recvMsg
}

// PostRecv makes length bytes at off of mr the buffer of the next message, and
// sends the peer a clear-to-send (paper, Table 1: recv_post). The
// buffer belongs to the network until Complete's fence is down. It fails with
// ErrAgain while the slot is still taken: by the receive that was posted as many before as there are slots, until that is completed and its fence
// is down (RecvHandle.Wait); and where the slot's turn comes round again, until late packets are gone, or every worker has found its queue empty.
// Nothing tells of the latter, which is seldom seen (docs/sdk.md): call it again after a pause.
func (q *QP) PostRecv(mr *MR, off, length units.Bytes) (RecvHandle, error) {
	if q.cfg.Driver != nil {
		return RecvHandle{}, &OpError{Op: "post receive", Object: q.name, Err: ErrNotSupported, Detail: "the QP has a driver, which posts receives"}
	}
	q.lock()
	defer q.mu.Unlock()
	return q.postRecv(mr, off, length, RecvOptions{})
}

// postRecv posts the next receive; mu is held.
func (q *QP) postRecv(mr *MR, off, length units.Bytes, o RecvOptions) (RecvHandle, error) {
	m, err := q.addRecv(q.ep.Now(), mr, off, length, o)
	if err != nil {
		return RecvHandle{}, &OpError{Op: "post receive", Object: q.name, Err: err}
	}
	return RecvHandle{m}, nil
}

// addRecv posts the next receive: clear bitmaps, publish the slot, expose the
// address, then CTS, in this order. mu is held.
func (q *QP) addRecv(now units.Instant, mr *MR, off, length units.Bytes, o RecvOptions) (*recvMsg, error) {
	switch {
	case q.err != nil:
		return nil, q.err
	case q.state() != qpReady && q.state() != qpConnecting:
		return nil, fmt.Errorf("%w: connect the QP first", ErrClosed)
	case length > q.cfg.MaxMessage:
		return nil, fmt.Errorf("%w: %d bytes; the QP's largest message has %d", ErrTooLong, length, q.cfg.MaxMessage)
	case !q.finishUnpost():
		return nil, ErrAgain
	case !q.slotFree(now, q.nextRecv):
		if q.blocked == blockedByQueue {
			q.kick() // progress watches, and lets whoever waits try again
		}
		return nil, ErrAgain
	}
	if err := mr.Hold(q.ep, AccessRemoteWrite, off, length); err != nil {
		return nil, err
	}
	m := q.newRecv(mr, length, o)
	if err := q.slots.Open(&m.msg); err != nil {
		mr.Release()
		q.ep.pool.put(m.slab)
		return nil, err
	}
	f := wire.Frame{Type: wire.TypeCTS, ID: m.seq, Transfer: o.Label.Transfer, Role: uint8(o.Label.Role), Index: o.Label.Index, Length: uint64(length), Total: uint64(o.Label.Total)}
	if length > 0 {
		rkey, va, err := q.table.Expose(m.seq, mr.region, backend.Range{Offset: off, Length: length})
		if err != nil {
			mr.Release()
			q.unpost(m)
			return nil, err
		}
		if !q.caps.RootKey {
			f.RKey, f.VA = rkey, va
		}
	}
	ahead := len(q.recvs) > len(q.closing) // the peer has something to go on with
	q.recvs[m.seq] = m
	if round := uint64(len(q.endTimes)); round > 0 {
		q.endTimes[m.seq%round] = units.Never // its own END counts from here on
	}
	q.nextRecv++
	if ahead {
		q.sess.PutSoon(now, f, 1)
	} else {
		q.sess.Put(now, f, 1)
	}
	q.kick()
	return m, nil
}

// unpost takes back a message that the peer doesn't know of. A thread that is in a batch may look at it for
// whatever reason, and may wait for mu there: so it is not waited for, but finishUnpost looks whether it has left.
// Until then the message keeps its bitmap and its slot, and nothing else is posted. mu is held.
func (q *QP) unpost(m *recvMsg) {
	q.slots.Close(&m.msg)
	q.unposted, q.unpostedEpochs = m, q.ep.engine.Epochs(q.unpostedEpochs[:0])
	if !q.finishUnpost() {
		q.kick()
	}
}

// finishUnpost ends unpost when every thread has left the batch that it was in, and reports whether there is
// nothing left to take back; mu is held.
func (q *QP) finishUnpost() bool {
	m := q.unposted
	if m == nil {
		return true
	}
	if !q.ep.engine.Left(q.unpostedEpochs) && q.slots.Err() == nil {
		return false
	}
	q.slots.Remove(&m.msg)
	q.ep.pool.put(m.slab)
	q.unposted = nil
	return true
}

// newRecv makes the next receive, its bitmaps clear; mu is held.
func (q *QP) newRecv(mr *MR, length units.Bytes, o RecvOptions) *recvMsg {
	n := q.nextRecv
	g := bitmap.NewGeometry(length, q.cfg.MTU, int(q.cfg.Chunk/q.cfg.MTU))
	words := bitmap.TrackerWords(g)
	if !q.caps.HostPackets {
		words = bitmap.Words(g.Chunks())
	}
	m := &recvMsg{q: q, seq: n, mr: mr, length: length, label: o.Label, slab: q.ep.pool.get(words)}
	m.msg.Seq, m.msg.Gen = n, uint32(q.generationOf(n))
	m.msg.Label, m.msg.Start = o.Mark, q.startChannel(n, length)
	if m.msg.Arrivals = o.Arrivals; o.Arrivals == nil {
		m.msg.Arrivals = q.unread
	}
	if q.cfg.Driver != nil {
		m.msg.Unit = max(1, int(o.Unit/q.cfg.MTU))
		m.msg.Short = o.Short
	}
	if q.caps.HostPackets {
		m.msg.Open(g, q.cfg.Split, m.slab)
	} else {
		m.msg.OpenChunks(g, q.cfg.Split, m.slab)
	}
	return m
}

// slotFree reports whether the slot of message n may be used: the fence of the
// message before is down; where late packets can't be distinguished, the END of the
// message before with the same address is older than the MSL; and no worker's
// queue holds a completion of that one any more. mu is held.
func (q *QP) slotFree(now units.Instant, n uint64) bool {
	q.blocked = notBlocked
	s := uint64(q.tableCfg.Slots)
	if n >= s && q.recvs[n-s] != nil {
		return false
	}
	if q.sess.UnackedOf(wire.TypeCompleted) >= 2*q.tableCfg.Slots || q.isAhead(n) {
		return false // the peer must acknowledge some first
	}
	last := dpa.LongAgo
	if round := uint64(len(q.endTimes)); round > 0 && n >= round {
		end := q.endTimes[n%round]
		if end == units.Never {
			return false
		}
		if last = end.Add(q.msl()); now < last {
			q.blocked, q.slotAt = blockedByAge, last // progress then lets whoever waits try again
			return false
		}
	}
	return q.drained(now, n, last)
}

// isAhead reports whether the peer would refuse the clear-to-send for message n, because it is too far beyond the first that it hasn't
// acknowledged; mu is held.
func (q *QP) isAhead(n uint64) bool {
	if n-q.unacked < q.mostAhead() {
		return false
	}
	for q.unacked < n && !q.sess.Pending(wire.TypeCTS, q.unacked) {
		q.unacked++
	}
	return n-q.unacked >= q.mostAhead()
}

// drained reports whether no completion that waits in a worker's queue could be
// taken for one of message n, used last at an instant; mu is held.
func (q *QP) drained(now units.Instant, n uint64, last units.Instant) bool {
	ok, asked := q.drain.May(now, n, last)
	if asked {
		for _, w := range q.ep.workers {
			w.ask()
		}
	}
	if !ok {
		q.blocked = blockedByQueue
	}
	return ok
}

// watchDrain looks again at a receive that was refused because of completions
// that wait, and reports whether they still do; mu is held.
func (q *QP) watchDrain(now units.Instant) bool {
	if q.blocked != blockedByQueue || q.state() > qpReady {
		return false
	}
	q.slotFree(now, q.nextRecv)
	if q.blocked == blockedByQueue {
		return true
	}
	q.makeReady() // the driver may try again
	return false
}

// msl is how long a packet may live in the network: QPConfig.MSL, or its default; mu is held.
func (q *QP) msl() units.Duration {
	if q.cfg.MSL != 0 {
		return q.cfg.MSL
	}
	d := 250 * units.Millisecond
	if q.sess != nil {
		rtt, _, _ := q.sess.RTT()
		d += 4 * rtt
	}
	return d
}

// onEnd handles END: the sender of message f.ID sends no more of it, and says how long it was;
// mu is held.
func (q *QP) onEnd(now units.Instant, f *wire.Frame) bool {
	if f.ID >= q.nextRecv {
		q.sess.Stats.Violations++
		return false
	}
	// An END that arrives again must not count for the newer message with
	// the same address.
	if round := uint64(len(q.endTimes)); round > 0 && f.ID+round >= q.nextRecv {
		if e := &q.endTimes[f.ID%round]; *e == units.Never {
			*e = now
		}
	}
	// A data message of a transfer is as long as the transfer's START makes it. An
	// END that says less would make it whole with bytes missing.
	if m := q.recvs[f.ID]; m != nil && m.state() == recvPosted && m.label.Role != RoleData {
		m.learnLength(units.Bytes(f.Length))
	}
	return true
}

// learnLength sets the message's length, as the peer has announced it, once. The connection check's stays what it is: of no bytes it
// would be whole without a packet. QP.mu is held.
func (m *recvMsg) learnLength(n units.Bytes) {
	if m.seq == 0 && n != m.length {
		m.q.sess.Stats.Violations++
		return
	}
	if _, known := m.msg.Length(); known {
		return
	}
	if n < 0 || n > m.length {
		m.q.sess.Stats.Violations++
		return
	}
	m.q.slots.SetLength(&m.msg, n)
	m.q.kick()
}

// onStart handles START, which announces a transfer; in the raw API a transfer is a message; mu is held.
func (q *QP) onStart(f *wire.Frame) bool {
	if q.cfg.Driver != nil {
		return q.event(Event{Kind: EventStart, Transfer: f.ID, Length: units.Bytes(f.Length), HasImm: f.HasImm, Imm: f.Imm, Bytes: f.Bytes})
	}
	if f.ID >= q.nextRecv {
		q.sess.Stats.Violations++
		return false
	}
	if m := q.recvs[f.ID]; m != nil && m.state() == recvPosted {
		m.learnLength(units.Bytes(f.Length))
		m.imm, m.hasImm = f.Imm, f.HasImm
	}
	return true
}

// onAbort handles ABORT: a transfer, in the raw API a message, failed at its sender; mu is held.
func (q *QP) onAbort(f *wire.Frame) bool {
	if q.cfg.Driver != nil {
		return q.event(Event{Kind: EventAbort, Transfer: f.ID, Code: f.Code})
	}
	if f.ID >= q.nextRecv {
		q.sess.Stats.Violations++
		return false
	}
	if m := q.recvs[f.ID]; m != nil && m.err == nil {
		err := ErrAborted
		if f.Code == abortTooLong {
			err = fmt.Errorf("%w: %w: the sender's message has more than the buffer's %d bytes", err, ErrTooLong, m.length)
		}
		m.err = &OpError{Op: "receive", Object: fmt.Sprintf("message %d", m.seq), Err: err}
	}
	return true
}

// Seq is the message's sequence number in its direction. The QP itself uses
// message 0 of each direction.
func (h RecvHandle) Seq() uint64 { return h.m.seq }

// Complete ends the message, at any time, whatever has arrived (paper, Table 1:
// recv_complete). It starts the fence and returns; the buffer is the user's when
// Done reports true. Completing again has no effect.
func (h RecvHandle) Complete() error {
	q := h.m.q
	q.lock()
	defer q.mu.Unlock()
	if h.m.state() == recvPosted {
		h.m.complete()
		q.kick()
	}
	return nil
}

// complete marks the message closed and starts the revocation; QP.mu is held.
func (m *recvMsg) complete() {
	if m.state() != recvPosted {
		return
	}
	q := m.q
	m.enter(recvCompleted)
	m.outcome = Abandoned
	// A worker publishes packets before it counts their chunks, so that the owner may have seen the
	// last packet, and be right that the message is whole, when AllSet doesn't say so yet.
	if t := &m.msg.Tracker; t.AllSet() || q.caps.HostPackets && t.Packets().AllSet() {
		m.outcome = Whole
	}
	// An empty buffer is full before anything is sent. Who gives it up then has no message, and the sender is told so.
	if _, known := m.msg.Length(); m.length == 0 && !known {
		m.outcome = Abandoned
	}
	q.slots.Close(&m.msg)
	if m.length > 0 { // only then it was exposed
		q.table.StartRevoke(m.seq)
	}
	m.epochs = q.ep.engine.Epochs(m.space[:0])
	q.closing = append(q.closing, m)
}

// fenceDown reports whether no byte and no bit can change any more: the device
// has revoked the address, and every worker that may have seen the message open
// has left the batch that it was in. QP.mu is held.
func (m *recvMsg) fenceDown() bool {
	return m.q.ep.engine.Left(m.epochs) && (m.length == 0 || m.q.table.Revoked(m.seq))
}

// checkFences finishes the receives whose fence is down; mu is held.
func (q *QP) checkFences(now units.Instant) {
	q.closing = slices.DeleteFunc(q.closing, func(m *recvMsg) bool {
		if !m.fenceDown() {
			return false
		}
		m.finish(now)
		return true
	})
}

// finish returns the bitmap to its pool and the buffer to the user, and sends
// COMPLETED; QP.mu is held.
func (m *recvMsg) finish(now units.Instant) {
	q := m.q
	q.slots.Remove(&m.msg)
	delete(q.recvs, m.seq)
	q.ep.pool.put(m.slab)
	m.slab = nil
	m.mr.Release()
	q.stats.MessagesReceived++
	if q.state() <= qpReady {
		q.sess.Put(now, wire.Frame{Type: wire.TypeCompleted, ID: m.seq, Code: uint8(m.outcome), Count: m.msg.Needed()}, 3)
	}
	m.enter(recvFenced)
	if m.seq != 0 { // 0 is the connection check
		q.ownEvent(Event{Kind: EventFenced, Seq: m.seq, Code: uint8(m.outcome)})
	}
}

// Done reports whether the fence is down: the buffer is the user's. It waits for
// nothing.
func (h RecvHandle) Done() bool {
	if q := h.m.q; h.m.state() != recvFenced && q.state() >= qpDead && q.mu.TryLock() {
		q.reapFences() // its worker may have stopped
		q.mu.Unlock()
	}
	return h.m.state() == recvFenced
}

// Wait blocks until Done, after Complete. Ending ctx ends only the wait.
func (h RecvHandle) Wait(ctx context.Context) error {
	return h.m.q.wait(ctx, "wait for fence", func() (bool, error) { return h.m.state() == recvFenced, nil })
}

// WaitArrived blocks until every packet of the message is in place, of an empty buffer's until the sender has announced it, or the
// message can't become whole any more. Ending ctx ends only the wait.
func (h RecvHandle) WaitArrived(ctx context.Context) error {
	return h.m.q.wait(ctx, "wait for message", h.m.arrived)
}

// arrived reports whether every packet of the message is in place, and why it can't become so; QP.mu is held.
func (m *recvMsg) arrived() (bool, error) {
	posted := m.state() == recvPosted
	switch {
	case posted && m.msg.AllSet():
		return true, nil
	case m.err != nil:
		return false, m.err
	case !posted && m.outcome == Whole:
		return true, nil
	case posted || m.q.err != nil: // a queue pair that fails completes its messages
		return false, m.q.err
	}
	return false, ErrCompleted
}

// Err is why the message can't arrive any more, nil while it can.
func (h RecvHandle) Err() error {
	q := h.m.q
	q.lock()
	defer q.mu.Unlock()
	return cmp.Or(h.m.err, q.err)
}

// Length is the message's length once the sender has announced it; until then known
// is false and n is the buffer's length.
func (h RecvHandle) Length() (n units.Bytes, known bool) {
	return h.m.msg.Length()
}

// Imm returns the user immediate when all its fragments have arrived, or the
// sender's control frame that carries it (paper, Table 1: recv_imm_get). ok is
// false before, and for a message that has none.
func (h RecvHandle) Imm() (imm uint32, ok bool, err error) {
	if h.m.msg.Closed() {
		return 0, false, ErrCompleted
	}
	if imm, ok = h.m.msg.Imm(); ok {
		return imm, true, nil
	}
	h.m.q.lock()
	defer h.m.q.mu.Unlock()
	return h.m.imm, h.m.hasImm, nil
}
