// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/signal"
)

// pollInstead is what a driver can do.
const pollInstead = "poll instead, or wait in another goroutine"

// lookAgain is how often a wait looks at fences that no worker may look at any more.
const lookAgain = time.Millisecond

// wait blocks until cond, called with mu held, is true or fails.
func (q *QP) wait(ctx context.Context, op string, cond func() (bool, error)) error {
	if q.ep.manual {
		return waitingIsManual(op, q.name)
	}
	if q.driving.Load() && inDriver() { // which holds mu
		return blockingInDriver(op, q.name, pollInstead)
	}
	ch := wakeUps.Get().(chan struct{})
	defer func() {
		q.unwait(ch)
		select {
		case <-ch:
		default:
		}
		wakeUps.Put(ch)
	}()
	for first := true; ; first = false {
		q.mu.Lock()
		fences := q.reapFences()
		ok, err := cond()
		if ok || err != nil {
			q.mu.Unlock()
			return err
		}
		q.waiters = append(q.waiters, ch)
		q.mu.Unlock()
		if first && inDriver() {
			return blockingInDriver(op, q.name, pollInstead)
		}
		var again <-chan time.Time
		if fences {
			again = time.After(lookAgain)
		}
		select {
		case <-ch:
		case <-again:
			q.unwait(ch)
		case <-ctx.Done():
			return &OpError{Op: op, Object: q.name, Err: context.Cause(ctx)}
		}
	}
}

// wakeUps are channels of calls that have waited, each empty.
var wakeUps = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// wakeWaiters makes all waiting calls look again; mu is held.
func (q *QP) wakeWaiters() {
	for _, ch := range q.waiters {
		signal.Nudge(ch)
	}
	q.waiters = q.waiters[:0]
}

// unwait takes ch from the waiters, if it is still among them.
func (q *QP) unwait(ch chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiters, ch); i >= 0 {
		last := len(q.waiters) - 1
		q.waiters[i] = q.waiters[last]
		q.waiters = q.waiters[:last]
	}
}

// driverCalls are the functions through which drivers are called.
var driverCalls = []string{
	runtime.FuncForPC(reflect.ValueOf((*QP).callDriver).Pointer()).Name(),
	runtime.FuncForPC(reflect.ValueOf((*QP).failDriver).Pointer()).Name(),
}

// inDriver reports whether a driver has called the caller. A call that blocks would
// hold up the worker that it needs.
func inDriver() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if slices.Contains(driverCalls, f.Function) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

func waitingIsManual(op, object string) error {
	return &OpError{Op: op, Object: object, Err: ErrNotSupported, Fix: "with Manual workers, poll and run Progress instead"}
}

func blockingInDriver(op, object, fix string) error {
	return &OpError{Op: op, Object: object, Err: ErrNotSupported, Detail: "it blocks, and a Driver runs on the worker that it would wait for", Fix: fix}
}
