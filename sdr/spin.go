// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"runtime"

	"github.com/sdr-rdma/go-sdr/units"
)

// A spinner decides whether a caller who runs a worker and has nothing to do polls on for a while or sleeps at once. Polling saves a
// wake-up where each end has a processor. Where they have to share one, it keeps the peer from answering. The difference shows: what
// is polled for comes, or it doesn't. So a spinner goes by how the last spins ended. While they don't pay it tries some in a row once
// in a while: one alone shows nothing, since the peer may sleep for the same reason. Every other time it tries fewer that are longer:
// where a wake-up takes as long as a spin, as on some virtual machines, each end sleeps because the other does.
//
// Whoever works most of the time has little to gain by sleeping, and much to lose: Linux wakes a sleeper on the processor of who woke it, at times,
// and leaves both there for tens of milliseconds while another processor is idle. So a caller may also poll for half as long as it has worked. That is
// long where messages come one after another, and next to nothing where a few come now and then.
type spinner struct {
	credit  int
	skipped int
	// times is how many times as long as it was told it polls, 1 or longTimes.
	times units.Duration
	// earned is for how long the caller may poll for the work that it has done, workSince when it last began to work, and begun when it
	// last began to poll.
	earned           units.Duration
	workSince, begun units.Instant
	// alone: there is but one processor.
	alone bool
}

const (
	mostCredit  = 16
	inVainCosts = 2
	// tryAfter is after how many sleeps spins are tried again.
	tryAfter  = 64
	longTimes = 4
	// mostEarned is longer than the kernel takes for moving one of two threads from their processor to an idle one.
	mostEarned = 10 * units.Millisecond
)

func newSpinner() spinner {
	return spinner{credit: mostCredit, times: 1, alone: runtime.NumCPU() == 1}
}

// pays reports whether to spin.
func (s *spinner) pays() bool { return s.credit > 0 }

// until is until when to poll on, at most for so long, or longTimes that unless there is something to do at next anyhow: long spins
// are for a peer that sleeps. It is longer where more is earned.
func (s *spinner) until(now, next units.Instant, most units.Duration) units.Instant {
	s.earned = min(s.earned+now.Sub(s.workSince)/2, mostEarned)
	s.workSince, s.begun = now, now
	most = max(most, 0)
	if s.earned > most && most > 0 && !s.alone {
		return now.Add(s.earned)
	}
	if !s.pays() {
		if s.skipped++; s.skipped < tryAfter {
			return now
		}
		s.times = longTimes + 1 - s.times // the other of the two
		s.credit, s.skipped = mostCredit/int(s.times), 0
	}
	if long := now.Add(s.times * most); long <= next {
		return long
	}
	return now.Add(most)
}

// found notes that something came during a spin, inVain that nothing did, and rested that no work was done until now.
func (s *spinner) found(now units.Instant) {
	s.credit = min(s.credit+1, mostCredit)
	s.earned = max(s.earned-now.Sub(s.begun), 0)
	s.workSince = now
}

func (s *spinner) inVain(now units.Instant) {
	s.credit = max(s.credit-inVainCosts, 0)
	s.earned, s.workSince = 0, now
}

func (s *spinner) rested(now units.Instant) { s.workSince = now }
