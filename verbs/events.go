// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// eventFile is a file of the kernel that yields events. It sits on the Go netpoller: a goroutine
// that waits for it costs no thread.
type eventFile struct {
	f   *os.File
	fd  int
	raw syscall.RawConn
	// closed tells a failure after close from others: RawConn has no error of its own for it.
	closed atomic.Bool
	// reading is held, by who has sent to it, while the file is waited for: the deadline by which a wait
	// is cancelled belongs to the file. A channel, so that waiting for it can be cancelled, too.
	reading chan struct{}
}

func newEventFile(fd int, name string) (*eventFile, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &eventFile{f: f, fd: fd, raw: raw, reading: make(chan struct{}, 1)}, nil
}

func (e *eventFile) close() {
	if e != nil {
		e.closed.Store(true)
		_ = e.f.Close()
	}
}

// poll reads what is there into b; 0 means nothing.
func (e *eventFile) poll(b []byte) (n int, err error) {
	// Control, unlike Read, does not wait behind a goroutine that waits.
	ctl := e.raw.Control(func(fd uintptr) { n, err = read(int(fd), b) })
	if ctl != nil {
		return 0, e.closedOr(ctl)
	}
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, err
}

// wait reads into b, sleeping until something is there or ctx ends. It returns 0 without an error
// when skip says so or wake was called; skip is asked after the point from which wake is seen.
func (e *eventFile) wait(ctx context.Context, b []byte, skip func() bool) (n int, err error) {
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := e.f.SetReadDeadline(time.Time{}); err != nil {
		return 0, e.closedOr(err)
	}
	if skip != nil && skip() {
		return 0, nil
	}
	stop := context.AfterFunc(ctx, e.wake)
	defer stop()
	wait := e.raw.Read(func(fd uintptr) bool {
		n, err = read(int(fd), b)
		return !errors.Is(err, unix.EAGAIN)
	})
	if errors.Is(wait, os.ErrDeadlineExceeded) {
		return 0, ctx.Err()
	}
	if wait != nil { // the poller gives up on a file in an error state, which only a read can name
		if n, err := e.poll(b); n > 0 || err != nil {
			return n, err
		}
		return 0, e.closedOr(wait)
	}
	return n, err
}

// wake ends a wait under way.
func (e *eventFile) wake() { _ = e.f.SetReadDeadline(time.Unix(1, 0)) }

func (e *eventFile) closedOr(err error) error {
	if e.closed.Load() {
		return ErrClosed
	}
	return err
}

func read(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
