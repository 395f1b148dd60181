// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/units"
)

// lookEvery is when a worker's goroutine looks, at the latest, whether callers still come back, and so how long something can be left
// undone when they suddenly don't.
const lookEvery = units.Millisecond

// A watchdog is a timer that callers who run a worker push back, while they do and when they leave it, and that wakes the worker's goroutine when they stay away.
// It is one of the kernel's (timerfd_create(2)): a timer of Go's has a thread wake at each time for which it was ever set, and of two processors
// that are busy that thread takes one, often the peer's.
type watchdog struct {
	timer *os.File
	fd    int
	// due is when the timer expires, or the last time that it did.
	due atomic.Int64
	// expired has a token when it has expired since somebody looked.
	expired, ended chan struct{}
}

func newWatchdog() (*watchdog, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		e := &OpError{Op: "open", Object: "timer", Err: err}
		if err == unix.EMFILE {
			e.Fix = "raise the limit of open files (ulimit -n)"
		}
		return nil, e
	}
	d := &watchdog{
		timer: os.NewFile(uintptr(fd), "timerfd"), fd: fd,
		expired: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go d.run()
	return d, nil
}

// run waits for the timer until it is closed.
func (d *watchdog) run() {
	defer close(d.ended)
	var times [8]byte
	for {
		if _, err := d.timer.Read(times[:]); err != nil {
			return
		}
		signal.Nudge(d.expired)
	}
}

// pushBack has it expire lookEvery after now, or sooner, but not in the first half of that: most calls leave the timer as it is.
func (d *watchdog) pushBack(now units.Instant) {
	if units.Instant(d.due.Load()).Sub(now) >= lookEvery/2 {
		return
	}
	d.due.Store(int64(now.Add(lookEvery)))
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(lookEvery))}
	if err := unix.TimerfdSettime(d.fd, 0, &in, nil); err != nil { // which only arguments can cause, or somebody who closes others' descriptors
		panic(os.NewSyscallError("timerfd_settime", err))
	}
}

// close stops it; nobody pushes it back any more.
func (d *watchdog) close() {
	_ = d.timer.Close()
	<-d.ended
}
