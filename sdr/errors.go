// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Conditions that callers tell apart with errors.Is. They come wrapped in an
// *OpError.
var (
	// ErrClosed: the object, or what it belongs to, was closed, or is a queue pair
	// that is not connected yet. All packages of go-sdr have this one.
	ErrClosed = operr.ErrClosed
	// ErrCompleted: the message of this handle has been completed; its slot
	// may already serve another message. At a sender: the receiver has completed it
	// before all had arrived.
	ErrCompleted = errors.New("message already completed")
	// ErrPeerDead: nothing arrived from the peer for the silence limit
	// while work was pending, or its process went away.
	ErrPeerDead = errors.New("peer is dead")
	// ErrPeerClosed: the peer closed the connection and said so.
	ErrPeerClosed = errors.New("the peer closed the connection")
	// ErrNoProgress: the peer lives, but a transfer has not advanced for the
	// stated time.
	ErrNoProgress = errors.New("no progress")
	// ErrMismatch: the two sides were configured differently.
	ErrMismatch = errors.New("the two ends do not match")
	// ErrNotSupported: the device can't do it, or it is not for objects that are used like this one: with a
	// Driver, or Manual workers.
	ErrNotSupported = errors.New("not supported")
	// ErrAgain: no slot, or of Port.SendReliable no room, is free now. QP.PostSend, QP.PostRecv and Port.SendReliable say what to wait for.
	ErrAgain = errors.New("no slot is free now")
	// ErrTooLong: a message is longer than what it must fit.
	ErrTooLong = errors.New("too long")
	// ErrBusy: memory is still in use by posted work.
	ErrBusy = operr.ErrBusy
	// ErrAborted: the sender gave the message up.
	ErrAborted = errors.New("aborted by the sender")
	// ErrArgument: a parameter, or a field of a configuration, is outside its range. Constructors of all packages of go-sdr that a connection is
	// configured with have this one.
	ErrArgument = operr.ErrArgument
)

// An OpError says which operation on which object failed, why, and what to do: the error of all
// packages of go-sdr.
type OpError = operr.Error
