// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// A worker is run by one goroutine at a time. That is its own, unless there is one caller who waits for
// something on it: then that caller runs it until what was waited for is there. So a message is taken from the
// device by the goroutine that waits for it, and goes to the device in the goroutine that sends it. To hand each
// of them from one goroutine to another takes longer than a small message does, and where processors
// are busy every hand-over waits for one.

// A runner is who runs a worker.
type runner uint32

const (
	runOwn    runner = iota // its own goroutine
	runCaller               // a caller who waits
	runNobody               // a caller did who is expected to come back; its own goroutine looks after it once in a while
)

// A turn says whose turn it is to run a worker.
type turn struct {
	by atomic.Uint32 // a runner
	// callers is how many wait.
	callers atomic.Int32
	// offer tells a caller who waits, and recall the worker's goroutine, that nobody runs the worker.
	offer, recall chan struct{}
	// parked: the worker's goroutine looks after nothing until a caller that departs recalls it.
	parked atomic.Bool
	// visits counts the turns of callers; left is when the last one ended, and prompt how many callers in a row came soon
	// after the one before.
	visits atomic.Uint64
	left   atomic.Int64
	prompt atomic.Int32

	spin spinner
	// awaited is what the caller waits for who runs the worker, nil for none.
	awaited <-chan struct{}
}

const (
	// A caller who comes back within backSoon, leastPrompt times in a row, is expected to do so again.
	backSoon    = 50 * units.Microsecond
	leastPrompt = 4
	// patrol is how often a worker's goroutine looks whether callers still come back, and so how long
	// something can be left undone when they suddenly don't.
	patrol = units.Millisecond
	// holdBack is how long what is to be said to the peer waits for something that it can travel with.
	holdBack = 200 * units.Microsecond
	// mostDeferred is for how many rounds that follow each other at once.
	mostDeferred = 4
)

func (t *turn) init() {
	t.offer, t.recall, t.spin = make(chan struct{}, 1), make(chan struct{}, 1), newSpinner()
}

// nudge puts a token into ch, unless one is there already.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (t *turn) runner() runner { return runner(t.by.Load()) }

// take makes a caller, or the worker's goroutine, the one who runs the worker, if nobody does.
func (t *turn) take(r runner) bool {
	if !t.by.CompareAndSwap(uint32(runNobody), uint32(r)) {
		return false
	}
	if r == runCaller {
		t.visits.Add(1)
	}
	return true
}

// drop says that nobody runs the worker.
func (t *turn) drop(now units.Instant) {
	t.awaited = nil
	t.left.Store(int64(now))
	t.by.Store(uint32(runNobody))
}

// come notes that a caller has something for the worker to do.
func (t *turn) come(now units.Instant) {
	if now.Sub(units.Instant(t.left.Load())) > backSoon {
		t.prompt.Store(0)
	} else if t.prompt.Load() < leastPrompt {
		t.prompt.Add(1)
	}
}

// expectsBack reports whether callers come back soon.
func (t *turn) expectsBack() bool { return t.prompt.Load() >= leastPrompt }

// isServed reports whether what the caller waits for who runs the worker is there, and whether that caller is expected back soon with
// something that could take along what there is to say to the peer.
func (t *turn) isServed() bool { return t.awaited != nil && t.expectsBack() && isClosed(t.awaited) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// lends reports whether callers may run the worker: not one that is tied to a processor.
func (w *worker) lends() bool { return !w.ep.manual && len(w.ep.cfg.CPUs) == 0 }

// await returns when done is closed or ctx has ended.
func (w *worker) await(ctx context.Context, done <-chan struct{}) {
	offer := w.turn.offer
	if !w.lends() {
		offer = nil
	}
	w.turn.come(w.ep.dev.Now())
	alone := w.turn.callers.Add(1) == 1
	for {
		switch {
		case !alone || offer == nil:
		case !w.turn.take(runCaller):
			w.kick() // its goroutine may sleep
		case w.runFor(ctx, done):
			return
		default:
			w.turn.callers.Add(1)
		}
		select {
		case <-done:
		case <-ctx.Done():
		case <-offer:
			alone = w.turn.callers.Load() == 1
			continue
		}
		w.turn.callers.Add(-1)
		return
	}
}

// runFor runs the worker until done is closed or ctx has ended. It reports false if the worker is its goroutine's again
// before. The caller doesn't count as one who waits any more.
func (w *worker) runFor(ctx context.Context, done <-chan struct{}) (served bool) {
	t := &w.turn
	t.awaited = done
	var unwake func() bool
	var until units.Instant // when to stop spinning
	spinning := false
	now := w.ep.dev.Now()
	for i := 1; !w.stop.Load(); i++ {
		var next units.Instant
		busy := false
		if i == 1 && !t.spin.pays() { // the sleep looks for what has come
			next = w.runReady(now)
		} else {
			next, busy = w.progress(now)
		}
		if busy && spinning {
			t.spin.found()
			spinning = false
		}
		if isClosed(done) || isClosed(ctx.Done()) {
			served = true
			break
		}
		if w.broken {
			break
		}
		if !busy && next > now {
			switch {
			case !spinning:
				until = t.spin.until(now, w.ep.cfg.Spin)
				spinning = until > now
			case now >= until:
				t.spin.inVain()
				spinning = false
			}
			if !spinning {
				if unwake == nil && ctx.Done() != nil {
					unwake = context.AfterFunc(ctx, w.cq.Wake)
				}
				w.sleep(next)
			}
		}
		if i%8 == 0 {
			runtime.Gosched() // as in run
		}
		now = w.ep.dev.Now()
	}
	if unwake != nil {
		unwake()
	}
	t.callers.Add(-1)
	w.depart(now)
	return served
}

// step runs the worker for a round, if nobody else does: what was posted leaves in the goroutine that posted it.
func (w *worker) step() {
	if !w.lends() || w.turn.runner() != runNobody {
		w.kick()
		return
	}
	now := w.ep.dev.Now()
	w.turn.come(now)
	if !w.turn.take(runCaller) {
		w.kick()
		return
	}
	w.runReady(now)
	w.depart(now)
}

// depart ends a caller's turn. The worker is left alone if its caller is expected back before there is something to do.
func (w *worker) depart(now units.Instant) {
	t := &w.turn
	soon := min(w.cq.Next(), w.timers.next()) < now.Add(holdBack) || w.handover.waits() || w.broken || w.stop.Load()
	t.drop(now)
	others := t.callers.Load()
	if others == 1 {
		nudge(t.offer)
	}
	if soon || others > 1 || t.parked.Load() || !t.expectsBack() {
		nudge(t.recall)
	}
}

// stepAside lets callers run the worker, and returns when its goroutine should again.
func (w *worker) stepAside() {
	t := &w.turn
	visits := t.visits.Load()
	t.drop(w.ep.dev.Now())
	nudge(t.offer)
	timer := time.NewTimer(patrol)
	defer timer.Stop()
	for {
		recalled := false
		select {
		case <-t.recall:
			recalled = true
			t.parked.Store(false)
		case <-timer.C:
		}
		before := visits
		visits = t.visits.Load()
		away := w.ep.dev.Now().Sub(units.Instant(t.left.Load()))
		if (recalled || away > backSoon) && t.take(runOwn) {
			return
		}
		if visits == before && !recalled { // a caller has run the worker all the time, and recalls us when it departs
			t.parked.Store(true)
			if t.take(runOwn) { // it has departed meanwhile, perhaps before it could see that
				t.parked.Store(false)
				return
			}
			continue
		}
		timer.Reset(patrol)
	}
}

// retire waits until no caller runs the worker, and lets none do it again; stop is set, and its goroutine has ended or was never
// started.
func (w *worker) retire() {
	for w.turn.runner() != runOwn && !w.turn.take(runOwn) {
		w.cq.Wake()
		runtime.Gosched()
	}
}
