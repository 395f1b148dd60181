// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// How long an automatic warm-up is, by which the state of a scheme has settled, unless
// that takes longer than autoWarmupTime.
const (
	autoWarmupTransfers = 20
	autoWarmupPackets   = 100_000
	autoWarmupTime      = 1 * units.Second
)

// leastIters is how many transfers are measured however long they take.
const leastIters = 3

// A measurement is what the sender's half of a point finds.
type measurement struct {
	// times are those of single transfers, of this end.
	times *histogram
	// took is how long all of them took together, where several were under way, and back what the other end
	// sent meanwhile.
	took units.Duration
	back direction
	// carry is what the paths took for the same, where they have rates of their own, and stall for how long, at most,
	// nothing new came at the other end.
	carry, stall units.Duration
	warmups      int
	counters     counters
	// bare are the times of the bare ping-pong beside --latency, nil for none.
	bare *histogram
	// cpu is what this end has spent, peerCPU the other.
	cpu, peerCPU result.CPUTime
	// complete: counters are those of both ends, and the receiver found every content right.
	complete bool
}

// A direction is what an end has sent.
type direction struct {
	n       int
	elapsed units.Duration
}

func newMeasurement() *measurement { return &measurement{times: newHistogram()} }

// send is the sender's half of a point. With an error it returns
// what was measured before. Ending ctx makes the transfer under way the last one.
func (pt *point) send(ctx context.Context) (*measurement, error) {
	defer pt.course.end()
	if pt.streams() {
		return pt.runStream(ctx)
	}
	graced, cancel := withGrace(ctx)
	defer cancel()
	r := newMeasurement()
	var warming, counting units.Duration // time spent
	for i := uint64(0); ; i++ {
		next, ours := pt.next(r, warming, counting), turn{}
		if ctx.Err() != nil {
			next, ours.Err = opEnd, errInterrupted.Error()
		}
		ours.Op = next
		if next != opEnd && pt.Verify {
			pt.cpu.apart(func() { fill(pt.buf[:pt.size], pt.Seed, i) })
		}
		theirs, err := pt.turn(graced, ours)
		r.cpu, r.peerCPU, r.stall = pt.cpu.spent(), theirs.CPU, max(theirs.Stall, 0)
		switch {
		case err != nil || ours.Err != "":
			return r, errors.Join(ctx.Err(), pt.sum(r, &theirs, err))
		case next == opEnd:
			return r, pt.sumSettled(graced, r)
		}
		if next == opCount && r.times.n == 0 {
			if pt.begun, err = pt.settle(graced); err != nil {
				return r, err
			}
			pt.cpu.begin()
			pt.course.begin(pt.end.local.interval, pt.stats)
		}
		begun := time.Since(pt.end.begun)
		pt.course.resume()
		took, err := pt.sendOne(graced)
		pt.course.pause()
		if err != nil {
			return r, pt.explainFailure(graced, err)
		}
		if next == opWarmup {
			r.warmups++
			warming += took
		} else {
			r.times.add(took)
			pt.ended.Add(1)
			if pt.watchesStalls() {
				r.carry += pt.Link.Paths.carry(pt.size, begun) + pt.Link.RTT
			}
			counting += took
		}
	}
}

// sumSettled adds up both ends' counters after the last transfer.
func (pt *point) sumSettled(ctx context.Context, r *measurement) error {
	end, err := pt.settle(ctx)
	if err == nil {
		r.counters, r.complete = end.both.since(pt.begun.both), true
	}
	return err
}

// sum is sumSettled when one end gives up, with what that end counted until then. The receiver has checked
// every content, also when it was interrupted itself.
func (pt *point) sum(r *measurement, theirs *turn, err error) error {
	var told *peerError
	if r.times.n > 0 && theirs.Counters != nil && (err == nil || errors.As(err, &told) && !told.wrong) {
		r.counters = pt.count().since(pt.begun.ours).plus(*theirs.Counters)
		r.complete = true
	}
	return err
}

// sendOne sends one transfer and returns its completion time.
func (pt *point) sendOne(ctx context.Context) (units.Duration, error) {
	begun := time.Now()
	t, err := pt.conn.StartSend(pt.mr, 0, pt.size, sdr.SendOptions{})
	if err != nil {
		return 0, err
	}
	if err := t.Wait(ctx); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// next is what the next transfer is for.
func (pt *point) next(r *measurement, warming, counting units.Duration) op {
	switch {
	case r.times.n == 0 && pt.warmsUp(r.warmups, warming):
		return opWarmup
	case pt.Iters > 0 && r.times.n < pt.Iters:
		return opCount
	case pt.Iters == 0 && (r.times.n < leastIters || counting < pt.Duration):
		return opCount
	default:
		return opEnd
	}
}

// warmsUp reports whether n transfers, which took so long, are too few to warm up.
func (pt *point) warmsUp(n int, spent units.Duration) bool {
	if pt.Warmup != autoWarmup {
		return n < pt.Warmup
	}
	mtu := pt.conn.QP().Config().MTU
	packets := (pt.size + mtu - 1) / mtu * units.Bytes(n)
	return (n < autoWarmupTransfers || packets < autoWarmupPackets) && spent < autoWarmupTime
}

// A standing is how far a point has got.
type standing struct {
	warming bool        // nothing is counted yet, as there is a warm-up
	part    float64     // of what is counted
	arrived units.Bytes // of all since the connections were made
}

// standing tells what the other end has acknowledged, of transfers that are under way, too: one may take minutes.
func (pt *point) standing() standing {
	passed, before, counting := pt.course.standing() // before the counters, which only grow
	return pt.standingAt(pt.size, arrived(pt.stats()), before, pt.ended.Load(), passed, counting)
}

// standingAt is standing when so much has arrived, of it before counting began, if it has, and so many transfers have ended and so much time
// has passed since then.
func (p *params) standingAt(size, arrived, before units.Bytes, ended int64, passed units.Duration, counting bool) standing {
	s := standing{warming: !counting && p.Warmup != 0, arrived: arrived}
	if !counting {
		return s
	}
	transfers, byTime := p.Iters, 1.0
	if p.Iters == 0 { // until the time has passed and what is under way then, and the least, has ended
		transfers, byTime = max(leastIters, p.Inflight), float64(passed)/float64(p.Duration)
	}
	bySize := float64(arrived-before) / float64(max(1, size)*units.Bytes(transfers*p.QPs))
	if size == 0 { // nothing arrives of those that are empty
		bySize = float64(ended) / float64(transfers*p.QPs)
	}
	s.part = min(byTime, bySize, 1)
	return s
}

// askTime is how long to wait for the receiver's view of a failure.
const askTime = 2 * units.Second

// explainFailure asks the receiver, if it lives, which may know better why a transfer failed.
func (pt *point) explainFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, sdr.ErrPeerDead) || errors.Is(err, sdr.ErrPeerClosed) {
		return err
	}
	_, told := pt.turnWithin(ctx, askTime, turn{Op: opEnd, Err: err.Error()})
	if errors.As(told, new(*peerError)) {
		return told
	}
	return err
}
