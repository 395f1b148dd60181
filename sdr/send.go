// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A grant is a receive that the peer has posted and we haven't used.
type grant struct {
	label  Label
	length units.Bytes
	rkey   uint32
	va     uint64
	// completed: the peer has given the receive up.
	completed bool
}

// A sendMsg is a message being sent. All fields are guarded by QP.mu.
type sendMsg struct {
	q     *QP
	seq   uint64
	mr    *MR
	base  units.Bytes // of the message in the MR
	stage stage[sendState]
	// length is the message's, or for a stream the most that it may become,
	// until End: then high, how far what was queued reaches.
	length, high units.Bytes
	g            grant // of all but waiting and queued ones
	start        int   // of the granted: the channel of its first packet
	err          error // constant once done
	imm          uint32
	hasImm       bool
	fragments    int             // zero-length fragments still to send, the last at offset Split.Fragments
	queue        []bitmap.Range  // packets to inject, in order
	space        [1]bitmap.Range // for queue: a one-shot message needs no more
	inflight     int             // packets injected and not completed
	enlisted     bool            // in QP.sending
}

func (m *sendMsg) state() sendState { return m.stage.load() }

func (m *sendMsg) enter(s sendState) { m.stage.enter(sendMoves, s) }

// SendOptions are optional properties of a message.
type SendOptions struct {
	// Imm is the user immediate, delivered as 4-bit fragments in the first
	// packets; best effort, like everything in a raw message.
	Imm    uint32
	HasImm bool
}

// A SendHandle is a message being sent by PostSend. It is a small value; copies
// mean the same message. The zero value is no message: compare with it,
// but call none of its methods.
type SendHandle struct {
	m *sendMsg
}

// PostSend sends length bytes at off of mr as the next message (paper, Table 1:
// send_post). It returns at once; the message leaves when the peer has posted
// the receive that it lands in. The memory must not change until Poll says
// done. It fails with ErrAgain while all slots (Split.Slots, 1024 by default) are taken by earlier sends: one is free as soon as
// Poll of any of them says done, so wait for the oldest (SendHandle.Wait) and call it again.
func (q *QP) PostSend(mr *MR, off, length units.Bytes, o SendOptions) (SendHandle, error) {
	m, err := q.newSend(mr, off, length, o, false)
	if err != nil {
		return SendHandle{}, &OpError{Op: "post send", Object: q.name, Err: err}
	}
	return SendHandle{m}, nil
}

// Poll reports whether the message has been injected and its memory is the
// user's again (paper, Table 1: send_poll). That says nothing about arrival:
// SDR is unreliable by contract.
//
// It takes no lock, so it never waits for anything.
func (h SendHandle) Poll() (done bool, err error) {
	if h.m.state() != sendDone {
		return false, nil
	}
	return true, h.m.err
}

// Seq is the message's sequence number in its direction.
func (h SendHandle) Seq() uint64 { return h.m.seq }

// Wait blocks until Poll says done. Ending ctx ends only the wait.
func (h SendHandle) Wait(ctx context.Context) error {
	return h.m.q.wait(ctx, "wait for send", h.Poll)
}

// A SendStream is a message whose chunks the user sends to any offset, in any
// order, again and again (paper, Table 1: send_stream_start).
type SendStream struct {
	m *sendMsg
}

// StartStream begins the next message: up to length bytes at off of mr. The
// message's length is the highest byte sent when End is called. It fails with ErrAgain as PostSend does.
func (q *QP) StartStream(mr *MR, off, length units.Bytes, o SendOptions) (SendStream, error) {
	m, err := q.newSend(mr, off, length, o, true)
	if err != nil {
		return SendStream{}, &OpError{Op: "start stream", Object: q.name, Err: err}
	}
	return SendStream{m}, nil
}

// Send queues n bytes at offset off of the message (send_stream_continue). off
// must be a multiple of the MTU, and so must n, unless the range ends where the
// message may end.
func (s SendStream) Send(off, n units.Bytes) error {
	q := s.m.q
	q.lock()
	defer q.mu.Unlock()
	if err := s.m.queueRange(off, n); err != nil {
		return &OpError{Op: "send", Object: fmt.Sprintf("message %d", s.m.seq), Err: err}
	}
	q.kick()
	return nil
}

// End says that nothing will be added (send_stream_end). Poll reports when all
// that was queued has been injected.
func (s SendStream) End() error {
	q := s.m.q
	q.lock()
	defer q.mu.Unlock()
	s.m.end(q.ep.Now())
	q.kick()
	return nil
}

// Poll reports whether, after End, everything has been injected and the memory
// is the user's again.
func (s SendStream) Poll() (done bool, err error) { return SendHandle(s).Poll() }

// Wait blocks until Poll says done.
func (s SendStream) Wait(ctx context.Context) error { return SendHandle(s).Wait(ctx) }

// Seq is the message's sequence number in its direction.
func (s SendStream) Seq() uint64 { return s.m.seq }

// queueRange queues the packets of n bytes at off; QP.mu is held.
func (m *sendMsg) queueRange(off, n units.Bytes) error {
	mtu := m.q.cfg.MTU
	switch {
	case m.err != nil:
		return m.err
	case m.state().ended():
		return fmt.Errorf("%w: the stream was ended", ErrClosed)
	case m.state() == sendStopped:
		return ErrCompleted
	case n <= 0:
		return fmt.Errorf("%w: %d bytes at %d: send at least one", ErrArgument, n, off)
	case off < 0 || off > m.length || n > m.length-off:
		return fmt.Errorf("%w: [%d, %d+%d) is outside the message's %d bytes", ErrArgument, off, off, n, m.length)
	case off%mtu != 0 || n%mtu != 0 && off+n != m.length:
		return fmt.Errorf("%w: [%d, %d+%d) does not lie on packets of %d bytes", ErrArgument, off, off, n, mtu)
	}
	m.high = max(m.high, off+n)
	m.queue = append(m.queue, bitmap.Range{From: int(off / mtu), To: int((off + n + mtu - 1) / mtu)})
	m.q.enlist(m)
	return nil
}

// end says that the owner adds nothing any more, which fixes the length; QP.mu is held.
func (m *sendMsg) end(now units.Instant) {
	switch from := m.state(); from {
	case sendWaiting:
		m.length = m.high
		m.enter(sendQueued)
	case sendOpen, sendStopped:
		m.length = m.high
		m.enter(sendEnding)
		if from == sendOpen {
			m.queueFragments()
		}
		m.announce(now)
		m.q.enlist(m)
	}
}

// enlist puts m on the list of messages with something to do; mu is held.
func (q *QP) enlist(m *sendMsg) {
	if !m.enlisted {
		m.enlisted = true
		q.sending = append(q.sending, m)
	}
}

// newSend makes the next message, which must have room in the slots; a stream is ended by its owner.
func (q *QP) newSend(mr *MR, off, length units.Bytes, o SendOptions, stream bool) (*sendMsg, error) {
	if length > q.cfg.MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes; the QP's largest message has %d", ErrTooLong, length, q.cfg.MaxMessage)
	}
	q.lock()
	defer q.mu.Unlock()
	switch {
	case q.cfg.Driver != nil:
		return nil, fmt.Errorf("%w: the QP has a driver, which sends what the peer grants", ErrNotSupported)
	case q.err != nil:
		return nil, q.err
	case q.state() >= qpClosing:
		return nil, ErrClosed
	case len(q.sends) >= q.tableCfg.Slots:
		return nil, ErrAgain
	}
	if err := mr.Hold(q.ep, 0, off, length); err != nil {
		return nil, err
	}
	return q.addSend(&sendMsg{q: q, mr: mr, base: off, length: length, imm: o.Imm, hasImm: o.HasImm}, stream), nil
}

// addSend gives m the next sequence; mu is held.
func (q *QP) addSend(m *sendMsg, stream bool) *sendMsg {
	now := q.ep.Now()
	m.seq = q.nextSend
	q.nextSend++
	q.sends[m.seq] = m
	if !stream {
		m.high = m.length
		if n := q.packets(m.length); n > 0 {
			m.queue = append(m.space[:0], bitmap.Range{From: 0, To: n})
		}
		m.end(now)
	}
	if g, ok := q.grants[m.seq]; ok {
		delete(q.grants, m.seq)
		m.grantedBy(now, g)
	}
	q.kick()
	return m
}

func (q *QP) packets(n units.Bytes) int { return int((n + q.cfg.MTU - 1) / q.cfg.MTU) }

// grantedBy starts m, or fails it when it is too long; QP.mu is held.
func (m *sendMsg) grantedBy(now units.Instant, g grant) {
	m.g, m.start = g, m.q.startChannel(m.seq, g.length)
	m.q.enlist(m)
	if m.high > g.length {
		m.failTooLong(now)
		return
	}
	m.length = min(m.length, g.length)
	if m.state() == sendWaiting {
		m.enter(sendOpen)
		return
	}
	m.enter(sendEnding)
	m.queueFragments()
	m.announce(now)
}

func tooLong(n units.Bytes, g grant) error {
	return fmt.Errorf("%w: the message has %d bytes and the peer's buffer %d", ErrTooLong, n, g.length)
}

// queueFragments makes zero-length packets carry what of the user immediate the
// message's own packets don't, and that there is one. A buffer without bytes has no
// address to which they could go. QP.mu is held.
func (m *sendMsg) queueFragments() {
	if n := m.q.cfg.Split.Fragments(); m.hasImm && n > 0 && m.g.length > 0 {
		m.fragments = 1 + max(0, n-m.q.packets(m.length))
	}
}

// announce sends START with what packets can't carry: a length that isn't the buffer's, or an
// immediate where there are no fragments. With a Driver that is Port.Announce's, and message 0
// is as long as its buffer. QP.mu is held.
func (m *sendMsg) announce(now units.Instant) {
	q := m.q
	if q.cfg.Driver == nil && (m.length != m.g.length || m.hasImm && (m.g.length == 0 || q.cfg.Split.Fragments() == 0)) {
		q.sess.Put(now, wire.Frame{Type: wire.TypeStart, ID: m.seq, Length: uint64(m.length), HasImm: m.hasImm, Imm: m.imm}, 3)
	}
}

// abortTooLong is the code of ABORT for a message that is longer than its receiver's buffer, as in package reliability.
const abortTooLong = 3

// failTooLong fails m before anything is sent; the peer gets
// an END and, in the raw API, an ABORT. QP.mu is held.
func (m *sendMsg) failTooLong(now units.Instant) {
	m.err = &OpError{Op: "send", Object: fmt.Sprintf("message %d", m.seq), Err: tooLong(m.high, m.g)}
	m.queue = nil
	m.enter(sendFailed)
	if q := m.q; q.cfg.Driver == nil && m.seq != 0 {
		q.sess.Put(now, wire.Frame{Type: wire.TypeAbort, ID: m.seq, Code: abortTooLong}, 1)
	}
}

// finish sends END for m once nothing reads its memory any more; QP.mu is held.
func (m *sendMsg) finish(now units.Instant) {
	q := m.q
	delete(q.sends, m.seq)
	if m.mr != nil {
		m.mr.Release()
	}
	// One that was too long was not sent, and says nothing new of the length.
	end := wire.Frame{Type: wire.TypeEnd, ID: m.seq, Length: uint64(min(m.length, m.g.length))}
	if q.cfg.Driver != nil {
		q.sess.PutSoon(now, end, 1) // to the peer its driver has told the length
	} else {
		q.sess.Put(now, end, 1)
	}
	q.stats.MessagesSent++
	m.enter(sendDone)
	q.makeReady() // whoever waits for the memory looks again
}

// onCTS handles a grant. It reports whether to acknowledge; mu is held.
func (q *QP) onCTS(now units.Instant, f *wire.Frame) bool {
	n := f.ID
	if n < q.granted {
		return true
	}
	if _, seen := q.beyond[n]; seen {
		return true
	}
	if n-q.granted >= q.mostAhead() || units.Bytes(f.Length) > q.cfg.MaxMessage {
		q.sess.Stats.Violations++
		return false
	}
	if q.overdue() {
		return false
	}
	g := grant{
		label:  Label{Transfer: f.Transfer, Role: Role(f.Role), Index: f.Index, Total: units.Bytes(f.Total)},
		length: units.Bytes(f.Length), rkey: f.RKey, va: f.VA,
	}
	if q.peer.rootKey {
		g.rkey, g.va = q.peer.rkey, q.peer.rootVA(q.tableCfg, n)
	}
	if m := q.sends[n]; m != nil {
		if m.state().granted() {
			return true
		}
		m.grantedBy(now, g)
	} else {
		if !q.event(Event{Kind: EventGrant, Seq: n, Label: g.label, Length: g.length}) {
			return false
		}
		q.grants[n] = g
	}
	q.beyond[n] = struct{}{}
	for {
		if _, ok := q.beyond[q.granted]; !ok {
			return true
		}
		delete(q.beyond, q.granted)
		q.granted++
	}
}

// mostAhead is how far ahead of the first grant that has not come an honest peer may be with the next.
func (q *QP) mostAhead() uint64 { return uint64(2 * q.tableCfg.Slots) }

// overdue reports whether the peer owes us so much that no grant is accepted before
// it has used grants up, or acknowledged what we sent it about earlier ones: it then
// repeats them. So it can't make us remember more. mu is held.
func (q *QP) overdue() bool {
	slots := q.tableCfg.Slots
	unacked := q.sess.UnackedOf(wire.TypeStart) + q.sess.UnackedOf(wire.TypeEnd) + q.sess.UnackedOf(wire.TypeAbort)
	return len(q.grants) >= 2*slots || unacked >= 4*slots
}

// onCompleted handles COMPLETED, the outcome of the peer's receive; mu is held.
func (q *QP) onCompleted(f *wire.Frame) bool {
	if _, seen := q.beyond[f.ID]; f.ID >= q.granted && !seen {
		if f.ID-q.granted >= q.mostAhead() {
			q.sess.Stats.Violations++
		}
		return false // its clear-to-send was lost, or is late: both come again
	}
	o := Outcome(f.Code)
	if o != Whole && o != Abandoned {
		q.sess.Stats.Violations++
		return false
	}
	if !q.event(Event{Kind: EventCompleted, Seq: f.ID, Code: f.Code, Needed: f.Count}) {
		return false
	}
	if g, ok := q.grants[f.ID]; ok {
		g.completed = true
		q.grants[f.ID] = g
	}
	if m := q.sends[f.ID]; m != nil {
		m.queue, m.fragments = nil, 0 // nothing more can land
		if m.state() == sendOpen {
			m.enter(sendStopped)
		}
		q.enlist(m)
	}
	return true
}
