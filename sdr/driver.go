// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Driver is a reliability layer that runs on a QP. Package reliability has
// one; write another to use a QP's control channel in a way of your own.
//
// With a driver, sequences are not matched by order: the receiver labels each
// receive that it posts (PostRecvLabeled), the label arrives at the peer as an
// EventGrant, and the sender opens just that message (OpenGranted).
//
// Both methods are called by the QP's worker, without any lock of package sdr
// held, one at a time. They may call any method of the QP that doesn't block; those
// that do (Connect, Close, every Wait) refuse with ErrNotSupported.
type Driver interface {
	// Progress takes what has happened since the last call and does what is
	// due. It returns when to be called again at the latest; it is also
	// called after anything happens to the QP. The slices are the QP's.
	Progress(now units.Instant, events []Event, sent []SentTag) (next units.Instant)
	// Failed is called once, when the QP fails or is closed. All its
	// messages are closed by then and every fence is down, unless err says
	// otherwise.
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
	// EventCompleted: the peer completed message Seq; Code is the outcome.
	EventCompleted
	// EventFenced: receive Seq's fence is down: its buffer is the user's.
	EventFenced
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

// An Event is something that the peer said or that a fence did.
type Event struct {
	Kind     EventKind
	Seq      uint64
	Label    Label
	Length   units.Bytes
	Transfer uint64
	Code     uint8
	HasImm   bool
	Imm      uint32
	ToSender bool
	Number   uint64
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

// SentTag reports that the injection with this tag no longer reads its memory.
type SentTag struct {
	Tag     uint64
	Channel int
}

// maxEvents and maxArena bound the peer's events that wait for the driver, and the
// bytes that they carry. State frames beyond are not acknowledged, so that the
// peer repeats them; SCHEME frames are dropped.
const (
	maxEvents = 8192
	maxArena  = 1 << 20
)

// Kick makes the QP's worker call Driver.Progress soon.
func (q *QP) Kick() { q.kick() }

// Expect says whether the driver waits for the peer. While it does, the peer's silence for
// QPConfig.Silence fails the QP, as it does while messages are under way: between two
// messages of a transfer there may be none. Call it from Progress.
func (q *QP) Expect(waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expecting = waits
}

// Announce sends START for a transfer until it is acknowledged, the first time
// as three spaced copies, because a lost START costs a round trip. params are at
// most 64 bytes.
func (q *QP) Announce(now units.Instant, transfer uint64, length units.Bytes, imm uint32, hasImm bool, params []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != qpReady {
		return
	}
	q.sess.Put(now, wire.Frame{Type: wire.TypeStart, ID: transfer, Length: uint64(length), Imm: imm, HasImm: hasImm, Bytes: slices.Clone(params)}, 3)
}

// Abort sends ABORT for a transfer until it is acknowledged.
func (q *QP) Abort(now units.Instant, transfer uint64, code uint8) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == qpReady {
		q.sess.Put(now, wire.Frame{Type: wire.TypeAbort, ID: transfer, Code: code}, 1)
	}
}

// SendScheme sends bytes of a reliability core once; they are copied. At most
// MaxScheme bytes.
func (q *QP) SendScheme(transfer uint64, toSender bool, number uint64, b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == qpReady {
		q.sess.Scheme(transfer, toSender, number, b)
		q.dirty.Store(true)
	}
}

// MaxScheme is the most bytes that SendScheme takes.
func (q *QP) MaxScheme() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sess == nil {
		return 0
	}
	return q.sess.MaxScheme()
}

// PeerWindow is how many bytes the peer takes back to back; 0: no limit known.
func (q *QP) PeerWindow() units.Bytes {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.peerWindow()
}

func (q *QP) peerWindow() units.Bytes {
	if q.sess == nil {
		return 0
	}
	if w, ok := q.sess.PeerWindow(); ok {
		return units.Bytes(min(w, 1<<40))
	}
	return q.peer.recvBurst
}

// event queues what the peer said for the driver, its bytes copied into memory
// that lives until the events are taken; mu is held. It reports false when full.
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
		q.dirty.Store(true)
	}
}

// takeEvents hands the queue to the driver and starts a new one in the memory of
// the one before; mu is held.
func (q *QP) takeEvents() ([]Event, []SentTag) {
	ev, st := q.events, q.sent
	q.events, q.events2 = q.events2[:0], ev
	q.sent, q.sent2 = q.sent2[:0], st
	q.arena, q.arena2 = q.arena2[:0], q.arena
	return ev, st
}
