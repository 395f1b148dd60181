// SPDX-License-Identifier: Apache-2.0

package sdr

import "github.com/sdr-rdma/go-sdr/units"

// A spinner decides whether a caller who runs a worker and has nothing to do polls on for a while or sleeps at once. Polling saves a
// wake-up where each end has a processor. Where they have to share one, it keeps the peer from answering. The difference shows: what
// is polled for comes, or it doesn't. So a spinner goes by how the last spins ended. While they don't pay it tries some in a row once
// in a while: one alone shows nothing, since the peer may sleep for the same reason. Every other time it tries fewer that are longer:
// where a wake-up takes as long as a spin, as on some virtual machines, each end sleeps because the other does.
type spinner struct {
	credit  int
	skipped int
	// times is how many times as long as it was told it polls, 1 or longTimes.
	times units.Duration
}

const (
	mostCredit  = 16
	inVainCosts = 2
	// tryAfter is after how many sleeps spins are tried again.
	tryAfter  = 64
	longTimes = 4
)

func newSpinner() spinner { return spinner{credit: mostCredit, times: 1} }

// pays reports whether to spin.
func (s *spinner) pays() bool { return s.credit > 0 }

// until is until when to poll on, at most for so long, or longTimes that unless there is something to do at next anyhow: long spins
// are for a peer that sleeps.
func (s *spinner) until(now, next units.Instant, most units.Duration) units.Instant {
	if !s.pays() {
		if s.skipped++; s.skipped < tryAfter {
			return now
		}
		s.times = longTimes + 1 - s.times // the other of the two
		s.credit, s.skipped = mostCredit/int(s.times), 0
	}
	most = max(most, 0)
	if long := now.Add(s.times * most); long <= next {
		return long
	}
	return now.Add(most)
}

// found notes that something came during a spin, inVain that nothing did.
func (s *spinner) found()  { s.credit = min(s.credit+1, mostCredit) }
func (s *spinner) inVain() { s.credit = max(s.credit-inVainCosts, 0) }
