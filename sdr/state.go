// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"slices"
	"sync/atomic"
)

type state interface {
	~uint32
	fmt.Stringer
}

// A stage holds the state of an object. It is changed with the QP's lock held; anyone may read it.
type stage[S state] struct{ v atomic.Uint32 }

func (s *stage[S]) load() S { return S(s.v.Load()) }

// enter goes to a state. A transition that the table of moves doesn't have is a bug of this package, whatever the
// peer says, so it panics.
func (s *stage[S]) enter(moves [][]S, to S) {
	if from := s.load(); !slices.Contains(moves[from], to) {
		panic(fmt.Sprintf("sdr: a %T goes from %v to %v", to, from, to))
	}
	s.v.Store(uint32(to))
}

// qpState is a state of a QP.
type qpState uint32

const (
	qpInit qpState = iota
	qpConnecting
	qpReady
	qpClosing   // no posts; fences running
	qpDead      // queue pairs destroyed
	qpLingering // also closed by the user, while a fence is not down yet
	qpGone      // out of its Endpoint
)

// qpMoves are the legal transitions of a QP: from each state those that may follow.
var qpMoves = [][]qpState{
	qpInit:       {qpConnecting, qpClosing},
	qpConnecting: {qpReady, qpClosing},
	qpReady:      {qpClosing},
	qpClosing:    {qpDead},
	qpDead:       {qpLingering},
	qpLingering:  {qpGone},
	qpGone:       nil,
}

func (s qpState) String() string {
	return [...]string{"init", "connecting", "ready", "closing", "dead", "lingering", "gone"}[s]
}

// sendState is a state of a message being sent. A one-shot message has been ended by its
// owner as soon as it is posted, a stream by End, the message of a Driver by Port.End.
type sendState uint32

const (
	sendWaiting sendState = iota // for a grant; its owner may queue packets
	sendQueued                   // for a grant; its owner has ended it
	sendOpen                     // granted; its owner may queue packets
	sendStopped                  // completed by the peer, so that nothing more can land; its owner has yet to end it
	sendEnding                   // granted and ended: what is queued goes out, what is in flight comes back
	sendFailed                   // too long for the peer's buffer: nothing was sent
	sendDone                     // nothing reads its memory any more
)

var sendMoves = [][]sendState{
	sendWaiting: {sendQueued, sendOpen, sendFailed, sendDone},
	sendQueued:  {sendEnding, sendFailed, sendDone},
	sendOpen:    {sendStopped, sendEnding, sendDone},
	sendStopped: {sendEnding, sendDone},
	sendEnding:  {sendDone},
	sendFailed:  {sendDone},
	sendDone:    nil,
}

func (s sendState) String() string {
	return [...]string{"waiting", "queued", "open", "stopped", "ending", "failed", "done"}[s]
}

// granted reports whether the peer has a buffer for the message, of whatever size.
func (s sendState) granted() bool { return s >= sendOpen }

// ended reports whether its owner adds nothing to it any more.
func (s sendState) ended() bool { return s == sendQueued || s >= sendEnding }

// recvState is a state of a posted receive.
type recvState uint32

const (
	recvPosted    recvState = iota
	recvCompleted           // closed to what arrives; its fence is running
	recvFenced              // no byte and no bit can change any more: the buffer is the user's
)

var recvMoves = [][]recvState{
	recvPosted:    {recvCompleted},
	recvCompleted: {recvFenced},
	recvFenced:    nil,
}

func (s recvState) String() string { return [...]string{"posted", "completed", "fenced"}[s] }

// A slotBlock is why the next receive could not be posted, where nothing that happens to
// this QP shows that it now can be.
type slotBlock uint8

const (
	notBlocked     slotBlock = iota
	blockedByAge             // packets of the message before with its address may be in flight, until QP.slotAt
	blockedByQueue           // a worker's queue may hold completions of that message
)
