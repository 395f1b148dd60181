// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A point with several transfers under way at a time is measured as perftest measures bandwidth: the ends don't
// meet between transfers, but before and after two phases, of which the first warms up.

// streams says whether the point is measured so.
func (p *params) streams() bool { return p.Inflight > 1 || p.QPs > 1 || p.Both || p.Latency }

func (pt *point) sends() bool    { return pt.end.end == sending || pt.Both || pt.Latency }
func (pt *point) receives() bool { return pt.end.end == receiving || pt.Both || pt.Latency }

// posts is how many receives of a lane are posted: more than are under way, so that the clear-to-send of the
// next is at the sender when it posts.
func (pt *point) posts() int { return pt.Inflight + min(pt.Inflight, aheadSmall) }

// openLanes makes the connections beside the first, and all memory.
func (pt *point) openLanes(more func() (*reliability.Conn, error)) error {
	for i := range pt.QPs {
		l := &lane{pt: pt, conn: pt.conn}
		if i > 0 {
			var err error
			if l.conn, err = more(); err != nil {
				return err
			}
		}
		pt.lanes = append(pt.lanes, l)
		if err := l.open(i); err != nil {
			return err
		}
	}
	return nil
}

// An introduction is what the ends must know of each other's further connections.
type introduction struct {
	Infos [][]byte `json:"infos"`
}

// connectLanes connects the connections beside the first.
func (pt *point) connectLanes(ctx context.Context, limit units.Duration) error {
	if pt.QPs == 1 {
		return nil
	}
	rest := pt.lanes[1:]
	var ours introduction
	for _, l := range rest {
		ours.Infos = append(ours.Infos, l.conn.Info())
	}
	theirs, err := exchange(ctx, pt.oob, limit, ours)
	if err != nil {
		return err
	}
	if len(theirs.Infos) != len(rest) {
		return errors.New("the peer makes another number of connections")
	}
	errs := make([]error, len(rest))
	var wg sync.WaitGroup
	for i, l := range rest {
		wg.Go(func() { errs[i] = l.conn.Connect(ctx, theirs.Infos[i]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// phaseTime, a century, bounds how long an end waits for the other to have sent all of a phase. Nobody knows how long --iters take, and after the
// longest --duration transfers are still under way. A peer that dies ends the wait, as the connection ends with it.
const phaseTime = 100 * 365 * maxDuration

// A phaseEnd is said by both ends when they have sent all of a phase.
type phaseEnd struct {
	// Sent is how many transfers each lane has sent since the beginning.
	Sent []uint64 `json:"sent"`
	// N and Elapsed are those of this phase, of all lanes.
	N       int            `json:"n"`
	Elapsed units.Duration `json:"elapsed_ns"`
	// Err says why this end gives up.
	Err string `json:"err,omitempty"`
}

// runStream is either end's part of a point. Ending asked makes the transfers under way the last ones.
func (pt *point) runStream(asked context.Context) (*measurement, error) {
	ctx, cancel := withGrace(asked)
	defer cancel()
	r := newMeasurement()
	for _, phase := range []op{opWarmup, opCount} {
		if phase == opWarmup && pt.Warmup == 0 {
			continue
		}
		if err := pt.beginPhase(ctx, phase); err != nil {
			return r, err
		}
		ours, theirs, err := pt.phase(ctx, asked, phase)
		if phase == opWarmup {
			r.warmups = ours.times.n
		} else {
			r.times, r.took = ours.times, ours.elapsed()
			r.back = direction{theirs.N, theirs.Elapsed}
		}
		if err == nil && phase == opCount {
			err = pt.endStream(ctx, r)
		}
		if err == nil && asked.Err() != nil {
			err = asked.Err()
		}
		if err == nil && theirs.Err != "" {
			err = &peerError{who: pt.end.end.peer(), text: theirs.Err}
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// beginPhase posts the receives and meets the other end.
func (pt *point) beginPhase(ctx context.Context, phase op) error {
	var failed error
	for _, l := range pt.lanes {
		if pt.receives() && failed == nil {
			failed = l.post()
		}
	}
	_, err := pt.turn(ctx, turn{Op: phase, Err: text(failed)})
	if err = errors.Join(failed, err); err != nil || phase != opCount {
		return err
	}
	if pt.begun, err = pt.settle(ctx); err == nil {
		pt.cpu.begin()
		pt.counting = true
		for _, l := range pt.lanes {
			l.warmed = l.received
		}
		if pt.end.end == sending {
			pt.ended.Store(0) // what warmed up has ended
			pt.course.begin(pt.end.local.interval, pt.stats)
			pt.course.resume()
		}
	}
	return err
}

// phase sends and receives until both ends have all of it.
func (pt *point) phase(ctx, asked context.Context, phase op) (*flow, phaseEnd, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var senders, receivers sync.WaitGroup
	known, tell := context.WithCancel(ctx)
	defer tell()
	flows := make([]*flow, len(pt.lanes))
	busy, parted := pt.untilParting(ctx, asked, cancel)
	for i, l := range pt.lanes {
		receive, send := l.parts(ctx, busy, known, phase)
		if receive != nil {
			receivers.Go(func() {
				if err := receive(); err != nil {
					cancel(err)
				}
			})
		}
		if send != nil {
			senders.Go(func() {
				var err error
				if flows[i], err = send(pt.limit(phase)); err != nil {
					cancel(err)
				}
			})
		}
	}
	senders.Wait()
	pt.course.pause()
	all := &flow{times: newHistogram()}
	for _, f := range flows {
		if f != nil {
			all.merge(f)
		}
	}
	failed := context.Cause(ctx)
	if failed != nil {
		failed = pt.givenUp(asked, failed)
		_ = pt.oob.CloseWithReason(failed.Error()) // else an exchange that ctx has ended already ends the session without a word
	}
	parted()
	theirs, err := pt.endPhase(ctx, asked, all)
	if err == nil {
		tell()
	} else {
		cancel(err)
	}
	receivers.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	if failed != nil {
		err = failed // the first, of which the others follow
	}
	return all, theirs, err
}

// givenUp is err, or, where that says no more than that the server has given up a transfer, why it has: it ends the session with that, which may
// come later than the transfer's end.
func (pt *point) givenUp(asked context.Context, err error) error {
	if !errors.Is(err, sdr.ErrCompleted) || pt.end.end != sending {
		return err
	}
	select {
	case <-pt.oob.Closed():
	case <-asked.Done():
	case <-time.After(askTime):
	}
	if said := asTold(asked, pt.oob.Err(), pt.end.end.peer()); errors.As(said, new(*peerError)) {
		return said
	}
	return err
}

// A parting is what the client says in both directions when it has sent all of a phase, or as much as until an interrupt. The server hears it
// while it is sending itself; what it says is nothing.
type parting struct {
	Interrupted bool `json:"interrupted,omitempty"`
}

// untilParting returns what ends when this end is to send no more: with asked, or, at the server of a point in both directions, when the client
// was interrupted. To be called when it has sent is parted. What fails is given to fail.
func (pt *point) untilParting(ctx, asked context.Context, fail func(error)) (busy context.Context, parted func()) {
	switch {
	case !pt.Both:
		return asked, func() {}
	case pt.end.end == sending:
		return asked, func() {
			if _, err := exchange(ctx, pt.oob, phaseTime, parting{asked.Err() != nil}); err != nil {
				fail(err)
			}
		}
	}
	busy, stop := context.WithCancel(asked)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		switch theirs, err := exchange(ctx, pt.oob, phaseTime, parting{}); {
		case err != nil:
			fail(err)
		case theirs.Interrupted:
			stop()
		}
	}()
	unwatch := func() bool { return true }
	if !pt.end.local.loopback { // else the other end is asked, too, and parts
		unwatch = context.AfterFunc(asked, func() { fail(errInterrupted) })
	}
	return busy, func() {
		<-heard
		unwatch()
		stop()
	}
}

// parts are what a lane does in a phase, nil for nothing.
func (l *lane) parts(ctx, asked, known context.Context, phase op) (receive func() error, send func(func(int, units.Duration) bool) (*flow, error)) {
	pt := l.pt
	switch {
	case pt.Latency && pt.end.end == receiving:
		return func() error { return l.pong(ctx, known) }, nil
	case pt.Latency:
		return nil, func(enough func(int, units.Duration) bool) (*flow, error) { return l.ping(ctx, asked, enough) }
	}
	if pt.receives() {
		receive = func() error { return l.receive(ctx, known, phase == opWarmup) }
	}
	if pt.sends() {
		send = func(enough func(int, units.Duration) bool) (*flow, error) { return l.send(ctx, asked, enough) }
	}
	return receive, send
}

// endPhase tells the peer how many transfers there were, and the lanes how many are to come. An end that only
// receives waits here for as long as the phase takes.
func (pt *point) endPhase(ctx, asked context.Context, all *flow) (phaseEnd, error) {
	ours := phaseEnd{N: all.times.n, Elapsed: all.elapsed()}
	answers := pt.Latency && pt.end.end == receiving // until it knows how many come
	if pt.sends() && !answers {
		if asked.Err() != nil {
			ours.Err = errInterrupted.Error()
		}
	} else if !pt.end.local.loopback { // else the end that sends is asked, too, and says when it has ended
		var stop context.CancelCauseFunc
		if ctx, stop = context.WithCancelCause(ctx); asked.Err() == nil {
			defer context.AfterFunc(asked, func() { stop(errInterrupted) })()
		}
		defer stop(nil)
	}
	for _, l := range pt.lanes {
		sent := uint64(0)
		if !answers { // else it is still counting, and nobody asks
			sent = l.sent
		}
		ours.Sent = append(ours.Sent, sent)
	}
	theirs, err := exchange(ctx, pt.oob, phaseTime, ours)
	switch {
	case err != nil && asked.Err() != nil:
		return theirs, errors.Join(asked.Err(), err)
	case err != nil:
		return theirs, err
	case len(theirs.Sent) != len(pt.lanes):
		return theirs, errors.New("the peer has another number of connections")
	}
	for i, l := range pt.lanes {
		if pt.receives() && (!pt.Latency || pt.end.end != sending) {
			l.until = theirs.Sent[i]
		}
	}
	return theirs, nil
}

// endStream counts at both ends and has the content that is still in memory checked.
func (pt *point) endStream(ctx context.Context, r *measurement) error {
	ours := pt.cpu.spent()
	end, err := pt.settle(ctx)
	if err != nil {
		return err
	}
	var wrong error
	for _, l := range pt.lanes {
		if wrong == nil {
			wrong = l.checkLast()
		}
	}
	theirs, err := pt.turn(ctx, turn{Op: opEnd, Err: text(wrong), Wrong: wrong != nil, CPU: pt.ownCPU(ours)})
	if err == nil && wrong == nil && pt.Latency && !pt.Link.emulated() {
		r.bare, err = pt.bare(ctx)
	}
	r.counters, r.cpu, r.peerCPU, r.complete = end.both.since(pt.begun.both), ours, theirs.CPU, true
	return errors.Join(wrong, err)
}

// limit says when a lane has sent enough of a phase.
func (pt *point) limit(phase op) func(n int, spent units.Duration) bool {
	if phase == opWarmup {
		return func(n int, spent units.Duration) bool { return !pt.warmsUp(n, spent) }
	}
	return func(n int, spent units.Duration) bool {
		if pt.Iters > 0 {
			return n >= pt.Iters
		}
		return n >= leastIters && spent >= pt.Duration
	}
}

// stats are those of all connections.
func (pt *point) stats() (all []reliability.Stats) {
	for _, l := range pt.lanes {
		all = append(all, l.conn.Stats())
	}
	if len(pt.lanes) == 0 {
		all = append(all, pt.conn.Stats())
	}
	return all
}
