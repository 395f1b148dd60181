// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Driver is a reliability layer that runs on a QP. Package reliability has
// one; write another to use a QP's control channel in a way of your own.
//
// With a driver, sequences are not matched by order: the receiver labels each
// receive that it posts (Port.PostRecv), the label arrives at the peer as an
// EventGrant, and the sender opens just that message (Port.OpenGranted).
//
// Both methods are called one at a time, by whoever runs the QP's worker: its goroutine, or a caller who waits (QP.Await) or
// posts (QP.Step); Failed perhaps by who closes the QP. A panic in one leaves the worker in the middle of its work, so don't recover it there.
// Calls that block (Connect, Close, every Wait) refuse with ErrNotSupported in both. What takes no lock may be
// called anywhere: Kick, Config, Endpoint, Info, the reading methods of bitmaps, and Poll
// and Done of messages.
type Driver interface {
	// Progress takes what has happened since the last call and does what is
	// due. It returns when to be called again at the latest; it is also
	// called after anything happens to the QP. p is valid until it returns. The QP is
	// locked meanwhile, so that nothing done through p locks again; those methods of a
	// QP and of its messages that do lock panic.
	Progress(p *Port) (next units.Instant)
	// Failed is called once, when the QP fails or is closed, after the last Progress and
	// without a lock. All its messages are closed by then and every fence is down,
	// unless err says otherwise.
	Failed(err error)
}

// EventKind says what happened.
type EventKind uint8

// Kinds of events.
const (
	// EventGrant: the peer posted a receive: Seq, Label, Length (its buffer's).
	EventGrant EventKind = iota + 1
	// EventStart: the peer announced a transfer: Transfer, Length, Imm, Bytes.
	EventStart
	// EventAbort: the peer gave a transfer up: Transfer, Code.
	EventAbort
	// EventScheme: a frame of the peer's reliability core: Transfer,
	// ToSender, Number, Bytes.
	EventScheme
	// EventCompleted: the peer completed message Seq; Code is the outcome, Needed how many
	// repeats it took.
	EventCompleted
	// EventReliable: a frame of the peer's reliability core that Port.SendReliable sent: Transfer,
	// ToSender, Bytes. Each comes once, in the order in which they were sent.
	EventReliable
	// EventFenced: receive Seq's fence is down: its buffer is the user's. Code is the outcome.
	EventFenced
	// EventTrimmed: a switch has cut packet Packet of message Seq, which was sent on Channel as its Number-th
	// repeat (Port.Repeat), to its headers: it will not arrive. It may be reported more than once, and
	// by anybody who can send from the peer's address.
	EventTrimmed
)

// Outcome says how a message ended at its receiver.
type Outcome uint8

// Outcomes, as they travel in COMPLETED.
const (
	// Whole: every byte was in place.
	Whole Outcome = iota + 1
	// Abandoned: the receiver completed it early.
	Abandoned
)

// An Event is something that the peer said, that a fence did or that a switch cut. EventKind says which fields have a meaning.
type Event struct {
	Kind     EventKind
	Seq      uint64
	Label    Label
	Length   units.Bytes
	Transfer uint64
	Code     uint8 // the Outcome of a message, or with what code a transfer was given up (docs/wire.md)
	HasImm   bool
	Imm      uint32
	// ToSender says which half of a transfer's core a frame is for.
	ToSender bool
	// Number is that of a frame (Port.SendScheme), or which repeat was cut.
	Number uint64
	// Packet and Channel are of an EventTrimmed.
	Packet, Channel int
	// Needed counts the repeats (Port.Repeat) that it took to place a message's units: of
	// each those up to the one that made it whole.
	Needed uint64
	// Bytes are valid until Progress returns.
	Bytes []byte
}

// Role says what a labelled message carries.
type Role uint8

// Roles.
const (
	// RoleRaw is a message of the raw API, matched by order.
	RoleRaw Role = iota
	// RoleData carries part of a transfer's data.
	RoleData
	// RoleParity carries parity units.
	RoleParity
)

// A Label says what a receive is for: message Index of a role of a transfer.
type Label struct {
	Transfer uint64
	Role     Role
	Index    uint32
	// Total is the length of the transfer's whole buffer in bytes.
	Total units.Bytes
}

// maxEvents and maxArena bound the peer's events that wait for the driver, and the
// bytes that they carry. State frames beyond are not acknowledged, so that the
// peer repeats them; SCHEME frames are dropped.
const (
	maxEvents = 8192
	maxArena  = 1 << 20
)

// Kick makes the QP's worker call Driver.Progress soon. It takes no lock, so it may be called from
// anywhere.
func (q *QP) Kick() { q.kick() }

// Step is Kick, for a caller who holds no lock that the Driver wants: if nobody runs the QP's worker the caller
// does, for a round.
func (q *QP) Step() {
	q.makeReady()
	q.home.step()
}

// KickLater is Kick for what may wait for a caller's next Step or Await, if one is expected within 200 µs.
func (q *QP) KickLater() {
	q.makeReady()
	if w := q.home; w.turn.runner() != runNobody || !w.turn.expectsBack() {
		w.kick()
	}
}

// Await blocks until done is closed, by the Driver as a rule, or ctx has ended. If nobody else waits for something on the QP's
// worker, the calling goroutine runs it meanwhile: it takes what arrives from the device and calls
// Driver.Progress, which saves handing that over. So it must hold no lock that the Driver wants. It returns
// context.Cause(ctx), or nil if done is closed, or ErrNotSupported to the QP's Driver and with Manual workers. That of another QP isn't
// refused, because looking for it would cost every call: it must not call Await either, since it would hold up its own worker.
func (q *QP) Await(ctx context.Context, done <-chan struct{}) error {
	switch {
	case signal.Closed(done):
		return nil
	case q.ep.manual:
		return waitingIsManual("wait", q.name)
	case (q.driving.Load() || q.state() >= qpDead) && inDriver(): // in Progress or, of a QP that is dead, in Failed
		return blockingInDriver("wait", q.name, pollInstead)
	}
	q.home.await(ctx, done)
	if signal.Closed(done) {
		return nil
	}
	return context.Cause(ctx)
}

// peerWindow is how many bytes the peer takes back to back, 0 while no limit is known; mu
// is held.
func (q *QP) peerWindow() units.Bytes {
	if q.sess == nil {
		return 0
	}
	if w, ok := q.sess.PeerWindow(); ok {
		return units.Bytes(min(w, uint64(units.TiB))) // more limits nobody, and sums with it must not overflow
	}
	return q.peer.recvBurst
}

// event queues what the peer said for the driver, its bytes copied into memory
// that lives until Progress has returned; mu is held. It reports false when full.
func (q *QP) event(e Event) bool {
	if q.cfg.Driver == nil {
		return true
	}
	n := len(q.arena)
	if len(q.events) >= maxEvents || n+len(e.Bytes) > maxArena {
		return false
	}
	if len(e.Bytes) > 0 {
		q.arena = append(q.arena, e.Bytes...)
		e.Bytes = q.arena[n:len(q.arena):len(q.arena)]
	}
	q.ownEvent(e)
	return true
}

// ownEvent queues what happened here. A flood from the peer must not displace it,
// and there are no more of it than receives posted; mu is held.
func (q *QP) ownEvent(e Event) {
	if q.cfg.Driver != nil {
		q.events = append(q.events, e)
		q.makeReady()
	}
}
