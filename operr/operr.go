// SPDX-License-Identifier: Apache-2.0

// Package operr holds the error that all packages of go-sdr return: which operation on which object
// failed, why, and what to do about it; and the conditions that they share.
//
// sdr.OpError, verbs.Error and oob.Error are names for Error, and each package's ErrClosed, ErrBusy and ErrArgument are
// those here, so one errors.As and one errors.Is are enough:
//
//	var e *operr.Error
//	if errors.As(err, &e) && e.Fix != "" {
//		fmt.Println("try this:", e.Fix)
//	}
//
// The package imports nothing of go-sdr. Values may be read by any number of goroutines.
package operr

import (
	"errors"
	"fmt"
	"strings"
)

// Conditions that several packages have.
var (
	// ErrClosed: the object, or what it belongs to, was closed by this end.
	ErrClosed = errors.New("closed")
	// ErrArgument: a parameter, or a field of a configuration, is outside its range.
	ErrArgument = errors.New("invalid argument")
	// ErrBusy: the memory is still exposed to the peer, or in use by posted work.
	ErrBusy = errors.New("still in use")
)

// An Error says which operation on which object failed, why, and what to do.
type Error struct {
	// Op is the call, such as "connect"; Object what it was made on, such as
	// "qp 3", "rxe0" or "192.0.2.1:4791". Object may be empty.
	Op, Object string
	// Err is the cause: a condition of the package, an errno, an error of
	// another package. errors.Is sees it.
	Err error
	// Detail and Fix are one phrase each, and may be empty. Fix is what a
	// person can do.
	Detail, Fix string
}

// Error is one line: operation, object, cause, detail and, in parentheses, fix.
func (e *Error) Error() string {
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
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error whose cause is written like that of fmt.Errorf.
func New(op, object, format string, args ...any) error {
	return &Error{Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// Argument is New for a parameter, or a field of a configuration, that is outside its range: its cause is ErrArgument, too.
func Argument(op, object, format string, args ...any) error {
	return New(op, object, "%w: %w", ErrArgument, fmt.Errorf(format, args...))
}

// Wrap returns an Error with the cause err, or nil without one. An err that is an Error itself already
// says what failed and is returned as it is.
func Wrap(op, object string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Op: op, Object: object, Err: err}
}
