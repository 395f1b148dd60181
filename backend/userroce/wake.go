// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// waker lets any goroutine end a Wait. While nobody waits, waking costs no system call.
type waker struct {
	fd    int     // eventfd
	count [8]byte // what drain read; here because on the stack it would escape

	woken    atomic.Bool
	sleeping atomic.Bool
	mu       sync.Mutex // held while fd is written to or closed
	closed   bool       // +checklocks:mu
}

func (w *waker) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return noDescriptor("make an eventfd", err)
	}
	w.fd = fd
	return nil
}

// beginWait reports whether to sleep: not when there was a wake since the last wait. If true, endWait
// must follow.
func (w *waker) beginWait() bool {
	if w.woken.Swap(false) {
		return false
	}
	w.sleeping.Store(true)
	// A wake that happened between the two lines above has not written to fd.
	if w.woken.Load() {
		w.endWait()
		return false
	}
	return true
}

// endWait ends what beginWait began.
func (w *waker) endWait() {
	w.woken.Store(false)
	w.sleeping.Store(false)
}

// drain makes fd wait again, after it was seen readable. A waker that writes late only makes the next
// Wait return early.
func (w *waker) drain() {
	_, _ = unix.Read(w.fd, w.count[:])
}

func (w *waker) wake() {
	if w.woken.Swap(true) || !w.sleeping.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signal()
}

// wakeSleeper is wake for news that a Wait would find by itself if it began now.
func (w *waker) wakeSleeper() {
	if w.sleeping.Load() {
		w.wake()
	}
}

// signal writes to the descriptor unless it is closed; mu is held.
func (w *waker) signal() {
	if !w.closed {
		one := [8]byte{1} // an eventfd takes any value but zero, in any byte order
		_, _ = unix.Write(w.fd, one[:])
	}
}

// close makes a Wait that has begun return, waits until it has, and closes the descriptor. The
// waker's owner refuses later ones.
func (w *waker) close() {
	for i := 0; ; i++ {
		w.woken.Store(true)
		w.mu.Lock()
		w.signal()
		w.mu.Unlock()
		if !w.sleeping.Load() {
			break
		}
		backOff(i)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		unix.Close(w.fd)
	}
}
