// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// A stall is for how long, at most, nothing new of a transfer has come.
type stall struct{ longest units.Duration }

// watchesStalls reports whether stalls are measured: where paths have rates of their own, one transfer at a time.
func (p *params) watchesStalls() bool { return p.Link.Paths != "" && !p.streams() }

// How often a transfer is looked at: some dozens of times in a round trip.
const (
	looksPerRTT = 32
	soonestLook = 100 * units.Microsecond
	latestLook  = 5 * units.Millisecond
)

// watch looks at a receive until all of it is there, or it has ended. Its beginning counts as an arrival.
func (s *stall) watch(ctx context.Context, t *reliability.Transfer, rtt units.Duration) {
	tick := time.NewTicker(min(max(rtt/looksPerRTT, soonestLook), latestLook))
	defer tick.Stop()
	var before units.Bytes
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.Done():
			s.longest = max(s.longest, time.Since(last))
			return
		case <-tick.C:
		}
		if placed, length := t.Progress(); placed != before {
			now := time.Now()
			s.longest = max(s.longest, now.Sub(last))
			if before, last = placed, now; placed == length {
				return
			}
		}
	}
}
