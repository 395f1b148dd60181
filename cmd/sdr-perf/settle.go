// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// settleRounds bounds how often the ends compare counters.
	settleRounds = 16
	// settleAlike is how many comparisons on end have to show the same, where packets are missing: those
	// may be lost, or wait for a host that is busy.
	settleAlike = 4
	// settleSigns is how many packets of a connection between two comparisons, and in each further second from one to the other, are signs of
	// life and what acknowledges them. While a receive is posted the ends ask each other for such, so that on a path of a quarter of a second
	// something is always under way. Those who see nothing else for settleTime need not wait until nothing is.
	settleSigns = 32
	settleTime  = units.Second
	// settleMargin is what a worker may take, beside the path, until what it got is counted.
	settleMargin = 2 * units.Millisecond
)

// A tally is what has been counted: by this end, and by both together.
type tally struct{ ours, both counters }

// A reading is what an end tells the other of its counters.
type reading struct {
	counters
	// Pause is how long it waits until the next.
	Pause units.Duration `json:"pause_ns"`
}

// settle counts at both ends when nothing is under way: counters that are read while packets are would
// show those as lost. Both ends call it after the same turn, and both see the same sums.
func (pt *point) settle(ctx context.Context) (tally, error) {
	pause := max(pt.conn.Stats().QP.SRTT, pt.Link.RTT) + settleMargin
	s := settling{signs: settleSigns * uint64(pt.QPs)}
	for {
		ours := reading{pt.count(), pause}
		theirs, err := exchange(ctx, pt.oob, pt.Timeout+pt.contentTime(), ours)
		if err != nil {
			return s.best, err
		}
		if s.compare(tally{ours.counters, ours.plus(theirs.counters)}, max(pause, theirs.Pause)) {
			return s.best, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return s.best, ctx.Err()
		}
	}
}

// settling is what comparisons have shown. It follows from what both ends know, so that they come to the same end.
type settling struct {
	signs  uint64 // so many packets in a second between two comparisons are no data
	best   tally  // the one that fewest packets were missing in since data was sent
	before counters
	rounds int
	alike  int            // how many comparisons on end have shown the same
	quiet  units.Duration // for how long no data was sent, and no fewer packets were missing
}

// compare takes what has been counted, a pause before the next comparison, and reports whether that is enough. One is not: what was received
// may have been counted before it was counted as sent.
func (s *settling) compare(now tally, pause units.Duration) bool {
	missing, least, sent := now.both.lost(), s.best.both.lost(), now.both.Sent-s.before.Sent
	if s.alike++; now.both != s.before {
		s.alike = 0
	}
	if s.quiet += pause; s.rounds == 0 || missing < least || sent > s.signs*uint64(1+pause/settleTime) {
		s.best, s.quiet = now, 0
	} else if missing == least {
		s.best = now
	}
	s.before = now.both
	s.rounds++
	return s.alike > 0 && missing == 0 || s.alike == settleAlike || s.quiet > settleTime || s.rounds == settleRounds
}
