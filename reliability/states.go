// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"slices"
)

// A transferState is how far a Send or Recv is.
type transferState uint8

const (
	// waiting: a Send whose receiver has posted no data message yet, a Recv whose
	// START has not arrived.
	waiting transferState = iota
	// running: it has a core, or is empty.
	running
	// closing: how it ends is known; it waits for its memory.
	closing
	// over: its Transfer has been finished, with Done closed.
	over
)

// transferMoves are the legal transitions of a transfer. One that fails, or is
// cancelled, goes from where it is to closing; one whose QP fails is over at once,
// because then nothing touches its memory any more.
var transferMoves = [][]transferState{
	waiting: {running, closing, over},
	running: {closing, over},
	closing: {over},
	over:    {},
}

// A sendState is how far a message of a Send is, from when it is opened on the grant of
// its receiver.
type sendState uint8

const (
	// open: its units may be injected.
	open sendState = iota
	// whole: the receiver has completed it, and has all of it.
	whole
	// withdrawn: END was sent although the receiver may lack units of it: it is done with
	// parity, or the transfer is closing.
	withdrawn
	// released: the device no longer reads its memory.
	released
)

var sendMoves = [][]sendState{
	open:      {whole, withdrawn},
	whole:     {released},
	withdrawn: {released},
	released:  {},
}

// A recvState is how far a message of a Recv is, from when it is posted. When its fence
// is down is the QP's to know: incoming forgets the message then.
type recvState uint8

const (
	// posted: packets may arrive.
	posted recvState = iota
	// filled: completed with every packet in place.
	filled
	// abandoned: completed with packets missing.
	abandoned
)

var recvMoves = [][]recvState{
	posted:    {filled, abandoned},
	filled:    {},
	abandoned: {},
}

func (s transferState) String() string {
	return [...]string{"waiting", "running", "closing", "over"}[s]
}

func (s sendState) String() string {
	return [...]string{"open", "whole", "withdrawn", "released"}[s]
}

func (s recvState) String() string {
	return [...]string{"posted", "filled", "abandoned"}[s]
}

// move sets a state. A transition that its table doesn't have is a bug of this package,
// whatever the peer says, so it panics.
func move[S interface {
	~uint8
	fmt.Stringer
}](moves [][]S, state *S, to S) {
	if !slices.Contains(moves[*state], to) {
		panic(fmt.Sprintf("reliability: a %T goes from %v to %v", to, *state, to))
	}
	*state = to
}
