// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"errors"
	"strings"
)

// Conditions that callers tell apart with errors.Is. They come wrapped in an
// *OpError.
var (
	// ErrClosed: the object, or what it belongs to, was closed.
	ErrClosed = errors.New("closed")
	// ErrCompleted: the message of this handle has been completed; its slot
	// may already serve another message.
	ErrCompleted = errors.New("message already completed")
	// ErrPeerDead: nothing was heard from the peer for the silence limit
	// while work was pending, or its process went away.
	ErrPeerDead = errors.New("peer is dead")
	// ErrPeerClosed: the peer closed its end of the connection and said so.
	ErrPeerClosed = errors.New("the peer closed the connection")
	// ErrNoProgress: the peer lives, but a transfer has not advanced for the
	// stated time.
	ErrNoProgress = errors.New("no progress")
	// ErrMismatch: the two ends were configured differently.
	ErrMismatch = errors.New("the two ends do not match")
	// ErrNotSupported: the device can't do it.
	ErrNotSupported = errors.New("not supported by this device")
	// ErrAgain: no slot is free now. Wait for a completion and try again.
	ErrAgain = errors.New("no message slot is free")
	// ErrTooLong: a message is longer than what it must fit.
	ErrTooLong = errors.New("too long")
	// ErrBusy: memory is still in use by posted work.
	ErrBusy = errors.New("still in use")
	// ErrAborted: the sender gave the message up.
	ErrAborted = errors.New("aborted by the sender")
	// ErrArgument: a parameter is outside its range.
	ErrArgument = errors.New("invalid argument")
)

// An OpError says which operation on which object failed, why, and what to do.
type OpError struct {
	// Op is the call, such as "connect"; Object what it was made on, such as
	// "qp 3" or "message 17".
	Op, Object string
	// Err is the cause; errors.Is sees the sentinels above through it.
	Err error
	// Detail and Fix are one phrase each, and may be empty.
	Detail, Fix string
}

// Error is one line: operation, object, cause, detail and fix.
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" " + e.Object)
	}
	b.WriteString(": " + e.Err.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Fix != "" {
		b.WriteString(" (" + e.Fix + ")")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }
