// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/units"
)

// A worker is run by one goroutine at a time: its own, or a caller's. While a single caller waits for something on the
// worker, that caller runs it until that is there. So the goroutine that waits for a message takes it from
// the device, and the goroutine that sends one hands it to the device. Passing a message from goroutine to goroutine would take
// longer than a small message does, and on busy processors every such pass waits for one.

// A runner is who runs a worker.
type runner uint32

const (
	runOwn    runner = iota // its own goroutine
	runCaller               // a caller, who waits or posts
	runNobody               // a caller did, who is expected back; its own goroutine looks after it once in a while
)

// A turn says whose turn it is to run a worker.
type turn struct {
	by atomic.Uint32 // a runner
	// callers is how many wait.
	callers atomic.Int32
	// offer tells a caller who waits, and recall the worker's goroutine, that nobody runs the worker.
	offer, recall chan struct{}
	// callerTurns counts the turns that callers had, and releasedAt is when whoever ran the worker last left it to nobody.
	callerTurns atomic.Uint64
	releasedAt  atomic.Int64
	// leftAt is when a caller last had nothing more for the worker to do, and absence the mean time until one comes again.
	leftAt, absence atomic.Int64

	// lending restrains the worker's goroutine from lending the worker to callers who wait. One who waits while another posts, as whoever reads from a
	// connection to which another goroutine writes, mostly sleeps when there is something to post, and has to be woken for it: the worker's goroutine,
	// which goes on polling and yields to those that it wakes, then does that better.
	lending restraint
	// heldBack is the queue pair whose control datagram waits for a message of the caller's; nil: none does. holding restrains who runs the worker from
	// having one wait. While the message stays away nobody runs the worker, so the peer waits for up to a millisecond, and who waits for the peer before
	// sending it is sure to be late.
	heldBack *QP
	holding  restraint
	spin     spinner
	yielder
	// awaited is closed when what the caller waits for who runs the worker is there; nil: nobody runs it who waits.
	awaited <-chan struct{}
}

const (
	// A caller is expected back within backSoon if that is the mean of its absences, of which the last counts for a quarter, and none for more than
	// mostAbsent. So one who shares a processor with others may be late once: to wake the worker's goroutine for that takes another processor from
	// somebody, often from the peer.
	backSoon   = 200 * units.Microsecond
	mostAbsent = 500 * units.Microsecond
	// A caller whose mean absence is at most quickBack is waited for even with what is due within dueSoon.
	quickBack = 50 * units.Microsecond
	dueSoon   = 10 * units.Microsecond
	// holdBack is how long a control datagram waits for a message that it can travel with.
	holdBack = 200 * units.Microsecond
	// For so many messages at least and at most nothing is held back after one that didn't come in time, and for so many waits the worker isn't lent after
	// a post that found a caller asleep.
	leastMissed, mostMissed = 4, 256
	leastKept, mostKept     = 8, 512
	// mostDeferred is how many rounds in a row may leave a QP's control datagram to the next, which follows at once.
	mostDeferred = 4
)

func (t *turn) init() {
	t.offer, t.recall, t.spin, t.yielder = make(chan struct{}, 1), make(chan struct{}, 1), newSpinner(), newYielder()
	t.holding.init(leastMissed, mostMissed)
	t.lending.init(leastKept, mostKept)
	t.absence.Store(int64(mostAbsent))
}

func (t *turn) runner() runner { return runner(t.by.Load()) }

// take makes a caller, or the worker's goroutine, the one who runs the worker, if nobody does.
func (t *turn) take(r runner) bool {
	if !t.by.CompareAndSwap(uint32(runNobody), uint32(r)) {
		return false
	}
	if r == runCaller {
		t.callerTurns.Add(1)
	}
	return true
}

// release says that nobody runs the worker.
func (t *turn) release(now units.Instant) {
	t.awaited = nil
	t.releasedAt.Store(int64(now))
	t.by.Store(uint32(runNobody))
}

// away is for how long nobody has run the worker, if nobody does.
func (t *turn) away(now units.Instant) units.Duration {
	return now.Sub(units.Instant(t.releasedAt.Load()))
}

// noteCaller notes when a caller has something for the worker to do.
func (t *turn) noteCaller(now units.Instant) {
	mean := t.meanAbsence()
	last := min(now.Sub(units.Instant(t.leftAt.Load())), mostAbsent)
	t.absence.Store(int64(mean + (last-mean)/4))
}

// noteLeft notes when a caller has nothing more for the worker to do.
func (t *turn) noteLeft(now units.Instant) { t.leftAt.Store(int64(now)) }

func (t *turn) meanAbsence() units.Duration { return units.Duration(t.absence.Load()) }

// begin begins a caller's turn. Whoever was away for long may have slept.
func (t *turn) begin(now units.Instant) {
	t.judgeHeldBack(now)
	if t.away(now) > backSoon {
		t.spin.rested(now)
	}
}

// expectsBack reports whether a caller is expected back soon.
func (t *turn) expectsBack() bool { return t.meanAbsence() <= backSoon }

// holdsBack reports whether a caller runs the worker who has what it waited for, and who is expected back soon: with a message that
// can take along what there is to say to the peer.
func (t *turn) holdsBack() bool {
	return t.awaited != nil && t.expectsBack() && signal.Closed(t.awaited) && t.holding.may()
}

// judgeHeldBack notes whether the message that something was held back for has come in time, for whoever runs the worker again.
func (t *turn) judgeHeldBack(now units.Instant) {
	if t.heldBack != nil {
		t.holding.judge(t.away(now) <= holdBack)
	}
}

// lends reports whether callers may run the worker: not one that is tied to a processor, nor one without a goroutine of its own.
func (w *worker) lends() bool { return !w.ep.manual && len(w.ep.cfg.CPUs) == 0 }

// lendsNow reports whether they may now.
func (w *worker) lendsNow() bool { return w.lends() && !w.turn.lending.applies() }

// await returns when done is closed or ctx has ended.
func (w *worker) await(ctx context.Context, done <-chan struct{}) {
	w.turn.lending.count()
	offer := w.turn.offer
	if !w.lendsNow() {
		offer = nil
	}
	now := w.ep.dev.Now()
	w.turn.noteCaller(now)
	alone := w.turn.callers.Add(1) == 1
	for {
		switch {
		case !alone:
		case offer == nil:
			if w.lends() && w.turn.runner() == runNobody {
				signal.Nudge(w.turn.recall)
			}
		case !w.turn.take(runCaller):
			w.kick() // its goroutine may sleep
		case w.runFor(ctx, done, now):
			return
		default:
			w.turn.callers.Add(1)
		}
		select {
		case <-done:
		case <-ctx.Done():
		case <-offer:
			now = w.ep.dev.Now()
			if alone = w.turn.callers.Load() == 1; !alone {
				signal.Nudge(w.turn.recall) // the offer was for one who waits alone
			}
			continue
		}
		w.turn.callers.Add(-1)
		w.turn.noteLeft(w.ep.dev.Now())
		w.turn.recallIfLeft()
		return
	}
}

// recallIfLeft has the worker's goroutine take back a worker that nobody runs, waits for or is expected back to. A caller may have left for
// whom it was just stepping aside: each of the two looks here for what the other has done.
func (t *turn) recallIfLeft() {
	if t.callers.Load() == 0 && t.runner() == runNobody && !t.expectsBack() {
		signal.Nudge(t.recall)
	}
}

// runFor runs the worker until done is closed or ctx has ended. It reports false if the worker stops or fails before, and is
// left to its goroutine. In either case the caller isn't counted among those who wait any more.
func (w *worker) runFor(ctx context.Context, done <-chan struct{}, now units.Instant) (served bool) {
	t := &w.turn
	t.awaited = done
	var unwake func() bool
	var until units.Instant // when to stop spinning
	spinning := false
	t.begin(now)
	for i := 1; !w.stop.Load(); i++ {
		var next units.Instant
		busy := false
		if i == 1 && (w.sendHeldBack() || !t.spin.pays()) { // the sleep, or the first poll of a spin, looks for what has come
			next = w.runReady(now)
		} else {
			next, busy = w.progress(now)
		}
		if busy && spinning {
			t.spin.found(now)
			spinning = false
		}
		if signal.Closed(done) || signal.Closed(ctx.Done()) {
			served = true
			t.lending.judge(true)
			break
		}
		if w.broken {
			break
		}
		if !busy && next > now {
			switch {
			case !spinning:
				until = t.spin.until(now, next, w.ep.cfg.Spin)
				spinning = until > now
			case now >= until:
				t.spin.inVain(now)
				spinning = false
			}
			if !spinning {
				if unwake == nil && ctx.Done() != nil {
					unwake = context.AfterFunc(ctx, w.cq.Wake)
				}
				w.sleep(next)
				t.spin.rested(w.ep.dev.Now())
			}
		}
		now = w.ep.dev.Now()
		w.watchdog.pushBack(now)
		if i%8 == 0 {
			t.yield(now, t.callers.Load() > 1)
		}
	}
	if unwake != nil {
		unwake()
	}
	t.callers.Add(-1)
	w.depart()
	return served
}

// sendHeldBack has the next round send what was held back for a message with which a caller was expected, who has come to wait instead. The peer may be
// waiting for it: an acknowledgement that came with the next would make both ends wait for each other by turns. It reports whether there is any.
func (w *worker) sendHeldBack() bool {
	q := w.turn.heldBack
	if q == nil {
		return false
	}
	w.turn.heldBack = nil
	w.ready.add(q)
	return true
}

// step runs the worker for a round, if nobody does: what was posted leaves in the goroutine that posted it. Otherwise whoever
// runs it is woken.
func (w *worker) step() {
	if !w.lends() {
		w.kick()
		return
	}
	now := w.ep.dev.Now()
	w.turn.noteCaller(now)
	if !w.turn.take(runCaller) {
		if w.asleep.Load() && w.turn.runner() == runCaller {
			w.turn.lending.judge(false) // who has to be woken for this
		}
		w.kick()
		w.turn.noteLeft(now)
		return
	}
	w.turn.begin(now)
	w.runReady(now)
	w.depart()
}

// depart ends a caller's turn. Nobody runs the worker then, if a caller is expected back before there is something to do, or so soon that it can wait.
func (w *worker) depart() {
	t := &w.turn
	now := w.ep.dev.Now() // the last round may have had much to send
	soon := w.handover.waits() || w.broken || w.stop.Load() ||
		t.meanAbsence() > quickBack && min(w.cq.Next(), w.timers.next()) < now.Add(dueSoon)
	w.watchdog.pushBack(now)
	t.noteLeft(now)
	t.release(now)
	others := t.callers.Load()
	if others == 1 {
		signal.Nudge(t.offer)
	}
	if soon || others > 1 || !t.expectsBack() || t.lending.applies() {
		signal.Nudge(t.recall)
	}
}

// stepAside lets callers run the worker, and returns when its own goroutine has taken it back: recalled, or because callers
// have stayed away.
func (w *worker) stepAside() {
	t := &w.turn
	now := w.ep.dev.Now()
	t.spin.rested(now)
	w.watchdog.pushBack(now)
	t.release(now)
	signal.Nudge(t.offer)
	t.recallIfLeft()
	for {
		recalled := false
		select {
		case <-t.recall:
			recalled = true
		case <-w.watchdog.expired:
		}
		now = w.ep.dev.Now()
		switch {
		case t.runner() == runCaller: // who pushes it back when it departs
		case !recalled && t.away(now) <= backSoon:
			w.watchdog.pushBack(now)
		case t.take(runOwn):
			t.judgeHeldBack(now)
			return
		}
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
