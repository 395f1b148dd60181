// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/signal"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestSpinner: a worker spins as long as spinning finds work, stops after some spins in vain, and after some waits
// tries again: by turns as many as at first, and fewer that are longer, unless there is something to do during these anyhow.
func TestSpinner(t *testing.T) {
	const most = 50 * units.Microsecond
	const now = units.Instant(100) // it has worked for no time worth a spin
	s := newSpinner()
	for range 1000 {
		require.Equal(t, now.Add(most), s.until(now, units.Never, most))
		s.found(now)
	}
	for _, times := range []units.Duration{1, longTimes, 1, longTimes} {
		for range mostCredit / inVainCosts / times {
			require.Equal(t, now.Add(times*most), s.until(now, units.Never, most))
			s.inVain(now)
		}
		for range tryAfter - 1 {
			require.Equal(t, now, s.until(now, units.Never, most), "they don't pay")
		}
	}
	require.Equal(t, now.Add(most), s.until(now, units.Never, most))
	s.credit = 0
	for range tryAfter {
		s.until(now, units.Never, most)
	}
	for range 1000 {
		require.Equal(t, now.Add(longTimes*most), s.until(now, units.Never, most), "long ones pay")
		s.found(now)
	}
	due := now.Add(longTimes * most)
	require.Equal(t, due, s.until(now, due, most))
	require.Equal(t, now.Add(most), s.until(now, due-1, most), "no peer is waited for that long")
	s = newSpinner()
	require.Equal(t, now, s.until(now, units.Never, -1), "never, if the configuration says so")
}

// TestSpinnerEarns: who has worked polls for half as long, whether or not the last spins have paid, and not twice for the same work; sleeping is no
// work. With one processor it doesn't.
func TestSpinnerEarns(t *testing.T) {
	const most = 50 * units.Microsecond
	s := newSpinner()
	s.alone, s.credit = false, 0
	now := units.Instant(8 * units.Millisecond)
	require.Equal(t, now.Add(4*units.Millisecond), s.until(now, now+1, most))
	now = now.Add(units.Millisecond)
	s.found(now)
	require.Equal(t, now.Add(3*units.Millisecond), s.until(now, units.Never, most), "what is left")
	now = now.Add(3 * units.Millisecond)
	s.inVain(now)
	s.credit = 0
	require.Equal(t, now, s.until(now, units.Never, most), "it is used up")
	now = now.Add(units.Second)
	s.rested(now)
	require.Equal(t, now, s.until(now, units.Never, most), "it has slept")
	now = now.Add(units.Second)
	require.Equal(t, now.Add(mostEarned), s.until(now, units.Never, most))
	s.found(now)
	require.Equal(t, now, s.until(now, units.Never, 0), "never, if the configuration says so")
	s.alone, s.credit = true, 0
	require.Equal(t, now, s.until(now, units.Never, most))
}

// TestProcessorsBoundWorkers: neither GOMAXPROCS nor the processors are outnumbered, and the worker's goroutine leaves one of two to others.
func TestProcessorsBoundWorkers(t *testing.T) {
	for _, c := range []struct{ procs, processors, want int }{
		{1, 1, 1}, {2, 2, 1}, {8, 2, 1}, {2, 8, 1}, {8, 8, 4}, {8, 5, 2}, {64, 64, maxWorkers},
	} {
		require.Equal(t, c.want, defaultWorkers(c.procs, c.processors), "GOMAXPROCS %d, %d processors", c.procs, c.processors)
	}
}

// TestTurn: the worker's own goroutine or one caller runs it, never both.
func TestTurn(t *testing.T) {
	var x turn
	x.init()
	require.False(t, x.take(runCaller), "it is the goroutine's")
	x.release(0)
	require.True(t, x.take(runCaller))
	require.False(t, x.take(runCaller))
	require.False(t, x.take(runOwn))
	x.release(0)
	require.True(t, x.take(runOwn))
	require.EqualValues(t, 1, x.callerTurns.Load())
}

// TestExpectedBack: a caller that comes back within backSoon a few times is expected back, also after it was away for long once, but not where it is away for long each other
// time. However long it was away, it is expected back after as many times as at first.
func TestExpectedBack(t *testing.T) {
	var x turn
	x.init()
	now := units.Instant(units.Second)
	comes := func(after units.Duration) {
		now = now.Add(after)
		x.noteCaller(now)
		x.noteLeft(now)
	}
	times := func() (n int) {
		for ; !x.expectsBack(); n++ {
			comes(0)
		}
		return n
	}
	require.Equal(t, 1+4, times(), "the first doesn't come back")
	for range 20 {
		comes(0)
	}
	comes(units.Second)
	require.True(t, x.expectsBack(), "it was away for long once")
	for range 8 {
		comes(0)
		comes(units.Second)
	}
	require.False(t, x.expectsBack(), "it is away for long each other time")
	for range 100 {
		comes(units.Second)
	}
	require.Equal(t, 4, times())
	for range 20 {
		comes(backSoon)
	}
	require.True(t, x.expectsBack())
	for range 20 {
		comes(backSoon + units.Microsecond)
	}
	require.False(t, x.expectsBack())
}

// TestWatchdog: it expires when nobody pushes it back, and only then.
func TestWatchdog(t *testing.T) {
	d, err := newWatchdog()
	require.NoError(t, err)
	defer d.close()
	begun := time.Now()
	now := func() units.Instant { return units.Instant(units.Second).Add(time.Since(begun)) }
	last, longest, expired := now(), units.Duration(0), 0 // longest from one push to the next: the scheduler may stretch it
	for now() < units.Instant(units.Second+20*lookEvery) {
		d.pushBack(now())
		time.Sleep(50 * time.Microsecond)
		expired = max(expired, len(d.expired))
		longest = max(longest, now().Sub(last))
		last = now()
	}
	if longest < lookEvery/4 {
		require.Zero(t, expired)
	}
	select {
	case <-d.expired:
	case <-time.After(10 * time.Second):
		require.Fail(t, "it hasn't expired")
	}
}

// TestTurnCountsWork: what a caller does between two of its turns is work for which it may poll, and its absence isn't.
func TestTurnCountsWork(t *testing.T) {
	const most = 50 * units.Microsecond
	var x turn
	x.init()
	x.spin.alone, x.spin.credit = false, 0
	now := units.Instant(units.Second)
	turnAfter := func(away units.Duration) units.Duration {
		now = now.Add(away)
		x.begin(now)
		polls := x.spin.until(now, units.Never, most).Sub(now)
		x.spin.inVain(now)
		x.release(now)
		return polls
	}
	require.Zero(t, turnAfter(units.Second))
	require.Equal(t, backSoon/2, turnAfter(backSoon))
	require.Zero(t, turnAfter(backSoon+1))
}

// idleQueue is a queue to which nothing comes, and tells of each Wake.
type idleQueue struct {
	backend.CQ
	woken chan struct{}
}

func (q idleQueue) Wake() { q.woken <- struct{}{} }

// stillDevice has a clock that stands still.
type stillDevice struct{ backend.Device }

func (stillDevice) Now() units.Instant { return units.Instant(units.Second) }

// idleWorker is a worker that its goroutine runs, which is the test's, and which seems to sleep.
func idleWorker(t *testing.T) *worker {
	t.Helper()
	w, err := newWorker(&Endpoint{dev: stillDevice{}}, 0, idleQueue{woken: make(chan struct{}, 1)})
	require.NoError(t, err)
	t.Cleanup(w.watchdog.close)
	w.asleep.Store(true)
	return w
}

// awaits has n callers wait until done is closed, and returns when they do, with what says that one has returned.
func awaits(t *testing.T, w *worker, n int, done chan struct{}) (returned chan struct{}) {
	returned = make(chan struct{}, n)
	for range n {
		go func() {
			w.await(t.Context(), done)
			returned <- struct{}{}
		}()
	}
	for int(w.turn.callers.Load()) < n {
		runtime.Gosched()
	}
	<-w.cq.(idleQueue).woken // by the first, which found that it can't run the worker
	return returned
}

// TestOfferNotTaken: who is offered a worker, and leaves because what it waited for is there, gives it back to the worker's goroutine.
func TestOfferNotTaken(t *testing.T) {
	w, done := idleWorker(t), make(chan struct{})
	returned := awaits(t, w, 1, done)
	w.turn.release(0) // as in stepAside, whose offer comes too late
	close(done)
	<-returned
	require.Len(t, w.turn.recall, 1)
}

// TestNobodyToOffer: the worker's goroutine takes a worker back at once when the caller for whom it has stepped aside is gone already.
func TestNobodyToOffer(t *testing.T) {
	w := idleWorker(t)
	soonest := time.Hour
	for range 20 { // of which some may be held up
		begun := time.Now()
		w.stepAside()
		soonest = min(soonest, time.Since(begun))
		require.Equal(t, runOwn, w.turn.runner())
	}
	require.Less(t, soonest, lookEvery/2)
}

// TestOfferToSeveral: where several wait when one of them takes an offer that was made to one, the worker's goroutine runs the worker.
func TestOfferToSeveral(t *testing.T) {
	w, done := idleWorker(t), make(chan struct{})
	returned := awaits(t, w, 2, done)
	w.turn.release(0)
	signal.Nudge(w.turn.offer)
	select {
	case <-w.turn.recall:
	case <-time.After(10 * time.Second):
		require.Fail(t, "nobody runs the worker")
	}
	require.True(t, w.turn.take(runOwn))
	close(done)
	<-returned
	<-returned
}

// TestHeldBack: something is held back for a caller's next message where that comes in time, and ever more seldom where it stays away.
func TestHeldBack(t *testing.T) {
	var x turn
	x.init()
	x.absence.Store(0)
	done := make(chan struct{})
	close(done)
	now := units.Instant(units.Second)
	// served has a caller served, and one come after a while. It reports whether something was held back meanwhile.
	served := func(after units.Duration) bool {
		x.awaited = done
		held := x.holdsBack()
		if held {
			x.heldBack = new(QP)
		}
		x.release(now)
		now = now.Add(after)
		x.begin(now)
		x.heldBack = nil // it has left
		return held
	}
	until := func(after units.Duration) (times int) {
		for !served(after) {
			times++
		}
		return times
	}
	for range 100 {
		require.True(t, served(holdBack))
	}
	require.True(t, served(holdBack+1))
	for _, want := range []int{4, 8, 16, 32, 64, 128, 256, 256} {
		require.Equal(t, want, until(holdBack+1))
	}
	require.Equal(t, 256, until(0))
	for range mostMissed {
		require.True(t, served(0))
	}
	require.True(t, served(units.Second))
	require.Equal(t, leastMissed, until(0), "as at first")
}

// TestLending: after a post that found a caller asleep the worker is kept for some waits, for twice as many after the next, and for fewer again once
// callers have run it.
func TestLending(t *testing.T) {
	var x turn
	x.init()
	l := &x.lending
	waits := func() (n int) {
		for ; l.applies(); n++ {
			l.count()
		}
		return n
	}
	require.Zero(t, waits())
	for _, want := range []int{leastKept, 2 * leastKept, 4 * leastKept} {
		l.judge(false)
		require.Equal(t, want, waits())
	}
	for range 100 {
		l.judge(false)
	}
	require.Equal(t, mostKept, waits())
	for range mostKept {
		l.judge(true)
	}
	l.judge(false)
	require.Equal(t, leastKept, waits())
}
