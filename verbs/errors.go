// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Conditions that callers test with errors.Is.
var (
	// ErrClosed: the object, or the device it belongs to, has been closed. All packages of go-sdr have this one.
	ErrClosed = operr.ErrClosed
	// ErrQueueFull: the work queue has no room for the rest of the batch. Poll the CQ and post it again.
	ErrQueueFull = errors.New("work queue is full: poll its CQ, then post the rest")
	// ErrCQOverflow: completions were lost because the CQ was full. The CQ is of no further use.
	ErrCQOverflow = errors.New("completion queue has overflowed: completions are lost; create it with as many " +
		"entries as its QPs can have requests outstanding")
	// ErrNoDevice: there is no RDMA device, or none of that name.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrRemoved: the device was removed, or has failed for good. Such errors are also EIO.
	ErrRemoved = errors.New("the device was removed")
	// ErrNoProvider: the device has no user-space driver in this package.
	ErrNoProvider = errors.New("no provider for this device")
	// ErrInUse: an object that depends on this one still exists. Such errors are also EBUSY.
	ErrInUse = errors.New("still in use")
)

// Error is a failed verb: Op is what was tried, such as "create QP", Object what it was tried on, such as
// "rxe0, 4096 bytes", Err mostly an errno. It is the error of all packages of go-sdr.
type Error = operr.Error

// wrap makes the Error of a verb, with the advice that its errno allows.
func wrap(verb, object string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: verb, Object: object, Err: err, Fix: fix(err)}
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
	return &Error{Op: verb, Object: object, Err: errInUse{}, Fix: "close " + strings.Join(list, ", ") + " first"}
}

// errInUse is ErrInUse and EBUSY in one line.
type errInUse struct{}

func (errInUse) Error() string   { return "still in use" }
func (errInUse) Unwrap() []error { return []error{ErrInUse, unix.EBUSY} }
