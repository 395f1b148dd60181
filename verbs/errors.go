// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Conditions that callers test with errors.Is.
var (
	// ErrClosed: the object, or the device it belongs to, has been closed.
	ErrClosed = errors.New("verbs: closed")
	// ErrQueueFull: the work queue has no room for the rest of the batch. Poll the CQ and post it again.
	ErrQueueFull = errors.New("verbs: work queue is full: poll its CQ, then post the rest")
	// ErrCQOverflow: completions were lost because the CQ was full. The CQ is of no further use.
	ErrCQOverflow = errors.New("verbs: completion queue has overflowed: completions are lost; create it with as many " +
		"entries as its QPs can have requests outstanding")
	// ErrNoDevice: there is no RDMA device, or none of that name.
	ErrNoDevice = errors.New("verbs: no such RDMA device")
	// ErrRemoved: the device was removed, or has failed for good. Such errors are also EIO.
	ErrRemoved = errors.New("verbs: the device was removed")
	// ErrNoProvider: the device has no user-space driver in this package.
	ErrNoProvider = errors.New("verbs: no provider for this device")
	// ErrInUse: an object that depends on this one still exists. Such errors are also EBUSY.
	ErrInUse = errors.New("verbs: still in use")
)

// Error is a failed verb. It unwraps to the kernel's errno.
type Error struct {
	// Verb is what was tried, such as "create QP".
	Verb string
	// Object is what it was tried on, such as "rxe0" or "MR of 4096 bytes".
	Object string
	// Err is the cause, mostly an errno.
	Err error
	// Fix is what to do about it; it may be empty.
	Fix string
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "verbs: %s", e.Verb)
	if e.Object != "" {
		fmt.Fprintf(&b, " (%s)", e.Object)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Fix != "" {
		fmt.Fprintf(&b, ": %s", e.Fix)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// wrap makes the Error of a verb, with the advice that its errno allows.
func wrap(verb, object string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Verb: verb, Object: object, Err: err, Fix: fix(err)}
}

// fix knows the errnos that mean the same for every verb.
func fix(err error) string {
	switch {
	case errors.Is(err, ErrRemoved):
		return "close it and open it again when it is back"
	case errors.Is(err, unix.EIO):
		return "the device failed: see the kernel's log (dmesg)"
	case errors.Is(err, unix.ENODEV):
		return "the device was removed: open it again when it is back"
	case errors.Is(err, unix.ENOTTY):
		return "the file is no uverbs device, or the kernel has no ioctl interface for verbs (it needs 5.15)"
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return "this kernel does not know the call (it needs 5.15)"
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return "the device does not support it"
	}
	return ""
}

// inUse says which objects keep another one from being destroyed.
func inUse(verb, object string, users map[string]int) error {
	var list []string
	for _, kind := range []string{"QP", "CQ", "SRQ", "MR", "MW", "Mkey", "AH"} {
		switch n := users[kind]; {
		case n == 1:
			list = append(list, "1 "+kind)
		case n > 1:
			list = append(list, fmt.Sprintf("%d %ss", n, kind))
		}
	}
	return &Error{Verb: verb, Object: object, Err: errInUse{}, Fix: "close " + strings.Join(list, ", ") + " first"}
}

// errInUse is ErrInUse and EBUSY in one line.
type errInUse struct{}

func (errInUse) Error() string   { return "still in use" }
func (errInUse) Unwrap() []error { return []error{ErrInUse, unix.EBUSY} }
