// SPDX-License-Identifier: Apache-2.0

package reliability

import "github.com/sdr-rdma/go-sdr/units"

// A rateSearch finds the rate of a path whose round trip is too long for the
// receiver's window to do it. It starts at 16 units a round trip and doubles each
// round while deliveries grow; then it paces at the best delivery rate of the
// last rounds, a little above it now and then to see whether there is more, and
// below it next to drain what that queued. Loss alone doesn't slow it down: what
// is delivered does.
type rateSearch struct {
	rate    units.Rate
	started bool
	startup bool
	flat    int // rounds of startup without growth
	phase   int // of gains

	begun      units.Instant
	sentNow    units.Bytes
	gotNow     units.Bytes
	busyBefore bool // the round before was limited by the rate, not by want of data

	rounds [bestRounds]units.Rate // delivery rates of the last busy rounds
	at     int
}

const (
	firstUnits = 16
	// bestRounds is how many rounds the best delivery rate is remembered.
	bestRounds    = 10
	minSearchRate = units.Mbit
	maxSearchRate = 10 * units.Tbit
)

// gains are the rounds after startup, in thousandths of the best delivery rate.
var gains = [...]units.Rate{1000, 1100, 920, 1000, 1000, 1000, 1000, 1000}

// step moves to the next round when a round trip has passed, and returns the
// rate, 0 for no limit.
func (s *rateSearch) step(now units.Instant, rtt, minRTT units.Duration, unit units.Bytes) units.Rate {
	if minRTT < shortRTT { // one sample may be late by a scheduler's whim; the least is the path
		s.started = false
		return 0
	}
	if !s.started {
		*s = rateSearch{started: true, startup: true, begun: now}
		s.rate = max(minSearchRate, units.RateOf(firstUnits*unit, rtt))
	}
	if now.Sub(s.begun) >= rtt {
		s.endRound(now)
	}
	return s.rate
}

func (s *rateSearch) endRound(now units.Instant) {
	elapsed := now.Sub(s.begun)
	busy := s.sentNow*10 >= s.rate.Bytes(elapsed)*9
	got := units.RateOf(s.gotNow, elapsed)
	before := s.best()
	if busy && s.busyBefore || got > before {
		s.rounds[s.at%bestRounds] = got
		s.at++
		s.judge(before)
	}
	s.busyBefore, s.sentNow, s.gotNow, s.begun = busy, 0, 0, now
}

// judge sets the rate after a round that tells something.
func (s *rateSearch) judge(before units.Rate) {
	best := s.best()
	if s.startup {
		if best > before+before/4 {
			s.flat = 0
		} else {
			s.flat++
		}
		if s.flat < 3 {
			s.set(2 * max(best, s.rate/2))
			return
		}
		s.startup, s.phase = false, 0
		s.set(best / 2) // drain what startup queued
		return
	}
	s.phase = (s.phase + 1) % len(gains)
	s.set(best / 1000 * gains[s.phase])
}

func (s *rateSearch) set(r units.Rate) { s.rate = min(max(r, minSearchRate), maxSearchRate) }

// best is the highest delivery rate of the rounds remembered.
func (s *rateSearch) best() (r units.Rate) {
	for _, x := range s.rounds {
		r = max(r, x)
	}
	return r
}

func (s *rateSearch) sent(n units.Bytes)      { s.sentNow += n }
func (s *rateSearch) delivered(n units.Bytes) { s.gotNow += n }
