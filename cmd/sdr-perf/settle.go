// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// settleRounds bounds how often the ends compare counters. While a receive is posted they ask each
	// other for signs of life, so that on a path of a quarter of a second something is always under way.
	settleRounds = 16
	// settleAlike is how often they have to have counted the same, one comparison after another, where packets are missing: those
	// may be lost, or wait for a host that is busy.
	settleAlike = 4
	// settleMargin is what a worker may take, beside the path, until what it got is counted.
	settleMargin = 2 * units.Millisecond
)

// A tally is what has been counted: by this end, and by both together.
type tally struct{ ours, both counters }

// settle counts at both ends when nothing is under way: counters that are read while packets are would
// show those as lost. Both ends call it after the same turn, and both see the same sums.
func (pt *point) settle(ctx context.Context) (now tally, err error) {
	pause := max(pt.conn.Stats().QP.SRTT, pt.Link.RTT) + settleMargin
	for alike, round := 0, 0; round < settleRounds; round++ {
		before := now.both
		now.ours = pt.count()
		theirs, err := exchange(ctx, pt.oob, pt.Timeout+pt.contentTime(), now.ours)
		if err != nil {
			return now, err
		}
		if now.both = now.ours.plus(theirs); now.both != before {
			alike = 0
		} else if alike++; alike == settleAlike || now.both.unseen() == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
	return now, nil
}
