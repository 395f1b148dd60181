// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/sdr/internal/control"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// progressControl sends the control datagrams that are due, and returns when to call it again; mu is held.
func (q *QP) progressControl(now units.Instant, w *worker) units.Instant {
	if q.sess == nil || q.state() >= qpDead {
		return units.Never
	}
	q.sess.SetActivity(now, q.activity())
	for range 64 {
		b, next := q.sess.Poll(now, w.dgram)
		if len(b) == 0 {
			return min(next, q.deadline())
		}
		q.postControl(now, w, b)
	}
	return now
}

// postControl posts a control datagram. One that the device refuses is lost, as any may be; mu is held.
func (q *QP) postControl(now units.Instant, w *worker, b []byte) {
	w.out[0] = backend.Datagram{To: q.ah, Data: b}
	q.ep.ctrlMu.Lock()
	taken, err := q.ep.ctrl.PostDatagrams(now, w.out[:])
	q.ep.ctrlMu.Unlock()
	if taken == 0 { // the queue is full, or err
		q.stats.ControlErrors++
	}
	if err != nil {
		q.ep.log.Debug("control datagram", "qp", q.name, "err", err)
	}
}

// activity is how much waits for the peer; mu is held.
func (q *QP) activity() control.Activity {
	waits := q.expecting || len(q.recvs) > 0
	switch {
	case q.state() == qpConnecting || waits && !q.dormant || len(q.sends) > 0 || q.sess.Unacked() > 0:
		return control.Active
	case waits:
		return control.Dormant
	default:
		return control.Idle
	}
}

// deadline is when the silence of the peer will have lasted too long, of a QP that still works; mu is held.
func (q *QP) deadline() units.Instant {
	if q.state() >= qpClosing || q.activity() == control.Idle {
		return units.Never
	}
	return q.sess.LastReceived().Add(q.cfg.Silence)
}

// checkPeer fails the QP when the peer has been silent for too long; mu is held.
func (q *QP) checkPeer(now units.Instant) {
	if q.sess == nil || now < q.deadline() {
		return
	}
	if q.sess.SetActivity(now, q.activity()); now < q.deadline() {
		return // the work is new, and nobody has asked the peer for a sign of life yet
	}
	if late := now.Sub(q.deadline()); late > min(maxSleep, q.cfg.Silence/8) && q.sess.Excuse(now) {
		return // nobody has looked for so long, as while the process was stopped: what the peer has sent meanwhile may wait to be received
	}
	e := &OpError{Op: "wait for peer", Object: q.name, Err: ErrPeerDead,
		Detail: "nothing arrived from " + q.peer.name() + " for " + units.FormatDuration(q.cfg.Silence) + " while work was pending",
		Fix:    "is its process alive, and does UDP pass in both directions? If the path may be gone for so long, allow for longer silence"}
	q.addRefusal(e, q.sess.LastReceived())
	q.fail(e)
}

// onDatagram handles a control datagram; any worker may call it.
func (q *QP) onDatagram(now units.Instant, h wire.Header, frames []byte, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sess == nil || q.state() >= qpDead {
		return
	}
	r := q.sess.Receive(now, h, frames, size)
	var f wire.Frame
	for r.Next(&f) {
		if !q.sess.Handle(now, h, &f) {
			q.onFrame(now, &f)
		}
	}
	if r.Err() != nil {
		q.sess.Stats.Malformed++
	}
	q.kick()
}

// onFrame handles a frame that concerns messages or transfers; mu is held.
func (q *QP) onFrame(now units.Instant, f *wire.Frame) {
	ok := true
	switch f.Type {
	case wire.TypeCTS:
		ok = q.onCTS(now, f)
	case wire.TypeEnd:
		ok = q.onEnd(now, f)
	case wire.TypeCompleted:
		ok = q.onCompleted(f)
	case wire.TypeStart:
		ok = q.onStart(f)
	case wire.TypeAbort:
		ok = q.onAbort(f)
	case wire.TypeScheme:
		q.event(Event{Kind: EventScheme, Transfer: f.ID, ToSender: f.ToSender, Number: f.Number, Bytes: f.Bytes})
		return
	case wire.TypeReliable:
		ok = q.onReliable(f)
	}
	if ok {
		q.sess.Ack(f.Type, f.ID)
	}
}

// onReliable accepts a frame of the peer's reliability core, if it is the next one and the driver's
// queue has room. It reports whether to acknowledge it; mu is held.
func (q *QP) onReliable(f *wire.Frame) bool {
	isNext, wasAccepted := q.sess.CheckReliable(f.ID)
	if !isNext {
		return wasAccepted
	}
	if !q.event(Event{Kind: EventReliable, Transfer: f.Transfer, ToSender: f.ToSender, Bytes: f.Bytes}) {
		return false
	}
	q.sess.AcceptReliable()
	return true
}
