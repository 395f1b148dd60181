// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/units"
)

// pollBatch is how many completions a worker takes at once.
const pollBatch = 256

// maxSleep bounds a sleep, so that a lost wake-up costs time and no more.
const maxSleep = 100 * units.Millisecond

// lateAtMost is how late a worker may look at its QPs, as on a busy host, until it counts as one that has stood still: with its process, which was
// stopped, or its virtual machine, which was paused. That time and no more is taken for time that has passed.
const lateAtMost = 20 * units.Millisecond

// brokenPause is the time between two polls of a device that has failed.
const brokenPause = 10 * units.Millisecond

// A worker polls one completion queue and runs the QPs that are at home on it.
type worker struct {
	ep     *Endpoint
	cq     backend.CQ
	engine dpa.Worker
	stop   atomic.Bool
	// watchdog has the worker's goroutine look after it when callers stay away. It is nil where they never run it.
	watchdog *watchdog
	turn     turn // who runs the worker; what follows belongs to that goroutine, where nothing else is said
	asleep   atomic.Bool
	// asked is set when a QP waits for a poll of this worker's queue.
	asked atomic.Bool
	// handover is what is to be posted for queue pairs at home elsewhere.
	handover handover
	// credits are the free entries of cq for signalled sends.
	credits atomic.Int64
	// Of the QPs at home here: those to be looked at, those that want it later, and those that are
	// looked at in this round.
	ready  readyList
	timers timers
	round  []*QP
	// due is when runReady should be called again at the latest, 0 before the first call, and stoodStill for how long in all it wasn't.
	due        units.Instant
	stoodStill units.Duration
	contention contention

	// broken: the last poll failed; logged: so has one before.
	broken, logged bool

	comps [pollBatch]backend.Completion
	rest  [pollBatch]int
	dgram []byte
	out   [1]backend.Datagram
}

func newWorker(e *Endpoint, id int, cq backend.CQ) (*worker, error) {
	w := &worker{ep: e, cq: cq, dgram: make([]byte, 0, 8192)}
	w.turn.init()
	w.engine.ID = id
	w.credits.Store(int64(e.cfg.CQEntries) / 2)
	var err error
	if w.lends() {
		w.watchdog, err = newWatchdog()
	}
	return w, err
}

// progress polls once and runs the QPs; busy says whether anything happened.
func (w *worker) progress(now units.Instant) (next units.Instant, busy bool) {
	if w.asked.Load() {
		w.asked.Store(false) // whoever asks later waits for another poll
	}
	again, posted := w.postHanded(now)
	now, busy = w.poll(now)
	busy = busy || posted
	if w.ep.polled {
		w.lookForNews()
	}
	busy = busy || !w.ready.empty()
	next = min(w.runReady(now), again)
	if w.broken {
		next, busy = max(next, now.Add(brokenPause)), false
	}
	return next, busy
}

// manyQPs is after how many QPs a worker polls again: each may send a datagram, and a poll of a device may bring no more than that many. Of
// hundreds that all have something to say the answers would otherwise not find room.
const manyQPs = 8

// runReady runs the QPs that have something to do, and returns when to call progress again.
func (w *worker) runReady(now units.Instant) (next units.Instant) {
	w.noteStandstill(now)
	next = w.cq.Next()
	w.timers.popDue(now, w.ready.add)
	w.round = w.ready.popAll(w.round[:0])
	if !w.ep.caps.Virtual {
		w.contention.note(now, len(w.round))
	}
	for i, q := range w.round {
		again, usedUp := q.progress(now, w)
		w.timers.set(q, again)
		switch {
		case usedUp:
			now = w.pollArrivals(now)
		case i%manyQPs == manyQPs-1:
			now, _ = w.poll(now)
		}
	}
	clear(w.round)
	if next = min(next, w.timers.next()); !w.ready.empty() {
		next = now
	}
	if w.due = max(next, now); !w.ep.manual {
		w.due = min(w.due, now.Add(w.ep.maxSleep()))
	}
	return next
}

// noteStandstill counts the time for which nobody has looked at the QPs although it was due.
func (w *worker) noteStandstill(now units.Instant) {
	if late := now.Sub(w.due); w.due > 0 && late > lateAtMost {
		w.stoodStill += late - lateAtMost
	}
}

// lookForNews makes those QPs ready that an engine of a device has something for: it
// wakes nobody.
func (w *worker) lookForNews() {
	for _, ch := range w.ep.chans.All() {
		if q := ch.qp; ch.first && q.home == w && q.slots.News() {
			w.ready.add(q)
		}
	}
}

// pollArrivals polls for what has come while a QP injected a quantum, so that QPs that
// send as fast as they can don't keep their worker from receiving.
func (w *worker) pollArrivals(now units.Instant) units.Instant {
	busy := true
	for i := 0; i < maxQuantum/8 && busy; i++ {
		now, busy = w.poll(now)
	}
	return now
}

// poll takes completions until a batch isn't full, at most a few batches, so that
// senders and timers get their turn. It returns when it has taken the last one: what has come did so before that, but maybe after now, if the
// scheduler put the worker aside or a round is long, and a round trip would look shorter than it was.
func (w *worker) poll(now units.Instant) (taken units.Instant, busy bool) {
	for range 4 {
		w.engine.Enter()
		n, err := w.cq.Poll(now, w.comps[:])
		if n > 0 && !w.ep.caps.Virtual {
			now = max(now, w.ep.dev.Now())
		}
		nrest := w.engine.Process(now, w.ep.host.Channels(), w.comps[:n], w.rest[:])
		if n < pollBatch && err == nil {
			w.engine.Emptied()
		}
		// Within the batch: a cookie that a completion bears goes to no other QP
		// before the worker has left it.
		for _, i := range w.rest[:nrest] {
			w.other(now, &w.comps[i])
		}
		w.engine.Leave()
		w.wakeOwners()
		if w.broken = err != nil; w.broken {
			w.broke("poll for completions", err)
		}
		busy = busy || n > 0
		if n < pollBatch {
			break
		}
	}
	return now, busy
}

// broke fails all QPs because the device doesn't work any more. It is logged once: a
// device that was closed or removed fails each time that it is asked.
func (w *worker) broke(op string, err error) {
	err = &OpError{Op: op, Object: w.ep.caps.Backend + " device", Err: err, Fix: "close the Endpoint and open the device again"}
	if !w.logged {
		w.logged = true
		w.ep.log.Error("device failed", "worker", w.engine.ID, "err", err)
		w.ep.failed(err)
	}
	for _, q := range w.ep.all() {
		q.mu.Lock()
		if q.state() < qpClosing {
			q.fail(err)
		}
		q.mu.Unlock()
	}
}

// other handles what isn't a data packet.
func (w *worker) other(now units.Instant, c *backend.Completion) {
	switch c.Kind {
	case backend.KindDatagram:
		w.ep.onDatagram(now, w.cq.Datagram(c))
	case backend.KindSent:
		if ch := w.ep.chans.Get(c.Cookie); ch != nil {
			ch.qp.onSent(ch, c)
		}
	case backend.KindCongestion:
		if ch := w.ep.chans.Get(c.Cookie); ch != nil {
			ch.qp.onCongestion(now)
		}
	case backend.KindTrimmed:
		if ch := w.ep.chans.Get(c.Cookie); ch != nil {
			ch.qp.onTrimmed(ch, c)
		}
	}
}

// run is the worker's goroutine. It reports to bound whether its thread runs on the
// processor that EndpointConfig.CPUs names.
func (w *worker) run(bound chan<- error) {
	defer w.ep.running.Done()
	leave, err := w.bindToCPU()
	bound <- err
	if err != nil {
		return
	}
	defer leave()
	var idleSince units.Instant
	idle := false
	for !w.stop.Load() {
		if w.turn.callers.Load() == 1 && w.lendsNow() && !w.broken {
			w.stepAside()
			idle = false
			continue
		}
		now := w.ep.dev.Now()
		next, busy := w.progress(now)
		w.turn.yield(now, busy) // whoever this round woke may have no other processor to run on
		if w.broken {
			time.Sleep(brokenPause)
			continue
		}
		if busy || next <= now {
			idle = false
			continue
		}
		if !idle {
			idle, idleSince = true, now
		}
		if now.Sub(idleSince) >= w.ep.cfg.Spin {
			w.sleep(next)
		}
	}
}

// sleep waits for the device, a deadline or a wake-up. asleep is raised before
// the last look for work, and kick looks at it after leaving work: one of the two
// sees the other.
func (w *worker) sleep(next units.Instant) {
	w.asleep.Store(true)
	defer w.asleep.Store(false)
	if w.asked.Load() || w.turn.callers.Load() == 1 && w.turn.runner() == runOwn && w.lendsNow() {
		return
	}
	if w.ep.polled {
		w.lookForNews()
	}
	if !w.ready.empty() || w.handover.some.Load() {
		return
	}
	d := min(w.ep.maxSleep(), next.Sub(w.ep.dev.Now()))
	if len(w.handover.left) > 0 {
		d = min(d, retryPost)
	}
	if d <= 0 {
		return
	}
	if err := w.cq.Wait(d); err != nil {
		w.broke("wait for completions", err)
		time.Sleep(brokenPause)
	}
}

// wakeOwners makes those QPs ready for which this worker has found something.
func (w *worker) wakeOwners() {
	for _, q := range w.engine.Dirtied() {
		q.(*QP).kick()
	}
}

// ask makes the worker poll soon.
func (w *worker) ask() {
	w.asked.Store(true)
	w.kick()
}

// kick makes the worker look at its QPs soon.
func (w *worker) kick() {
	if w.asleep.Load() {
		w.cq.Wake()
	} else if w.turn.runner() == runNobody {
		signal.Nudge(w.turn.recall)
	}
}
