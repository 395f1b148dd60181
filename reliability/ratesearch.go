// SPDX-License-Identifier: Apache-2.0

package reliability

import "github.com/sdr-rdma/go-sdr/units"

// A rateSearch finds the rate of a path whose round trip is too long for the
// receiver's window to do it: it starts at 16 units a round trip and doubles each
// round while nearly all that was paced is delivered, then keeps what was
// delivered and probes upwards.
type rateSearch struct {
	rate units.Rate
	// The round: begun when, sent and delivered since, and what had been sent
	// in the round before, which is what this round's deliveries answer.
	begun         units.Instant
	sentNow       units.Bytes
	sentBefore    units.Bytes
	deliveredNow  units.Bytes
	started       bool
	startup       bool
	busyBefore    bool // the round before was limited by the rate, not by want of data
	roundsAtSpeed int
	lossMilli     int // smoothed share of what was sent and not delivered
}

// Parameters of the search, in thousandths.
const (
	firstUnits     = 16
	keepUp         = 950
	probeEvery     = 8 // rounds
	probeGain      = 1060
	minSearchRate  = units.Mbit
	maxSearchRate  = 10 * units.Tbit
	delayTolerance = 1250
)

// step moves to the next round when a round trip has passed.
func (s *rateSearch) step(now units.Instant, rtt, minRTT units.Duration, unit units.Bytes) units.Rate {
	if minRTT < shortRTT { // one sample may be late by a scheduler's whim; the least is the path
		s.started = false
		return 0
	}
	if !s.started {
		s.started, s.startup, s.begun = true, true, now
		s.rate = max(minSearchRate, units.RateOf(firstUnits*unit, rtt))
		return s.rate
	}
	if now.Sub(s.begun) < rtt {
		return s.rate
	}
	s.endRound(now, rtt, minRTT)
	return s.rate
}

func (s *rateSearch) endRound(now units.Instant, rtt, minRTT units.Duration) {
	elapsed := now.Sub(s.begun)
	paced := s.rate.Bytes(elapsed)
	busy := s.sentNow*1000 >= paced*900
	if busy && s.busyBefore {
		s.judge(elapsed, rtt, minRTT)
	}
	s.busyBefore = busy
	s.sentBefore, s.sentNow, s.deliveredNow, s.begun = s.sentNow, 0, 0, now
}

// judge compares what arrived in a round with what was sent in the one before.
func (s *rateSearch) judge(elapsed, rtt, minRTT units.Duration) {
	got := units.RateOf(s.deliveredNow, elapsed)
	kept := s.deliveredNow*1000 >= s.sentBefore*units.Bytes(keepUp-s.lossMilli)
	queueing := int64(rtt)*1000 > int64(minRTT)*delayTolerance
	switch {
	case s.startup && kept && !queueing:
		s.rate = min(2*s.rate, maxSearchRate)
	case s.startup:
		s.startup = false
		s.rate = max(got, s.rate/2, minSearchRate)
	case queueing:
		s.rate = max(min(s.rate, got)*98/100, minSearchRate)
		s.roundsAtSpeed = 0
	case !kept:
		// Loss without delay is the path's own: learn it rather than slow down.
		lost := int((s.sentBefore - min(s.sentBefore, s.deliveredNow)) * 1000 / s.sentBefore)
		s.lossMilli = min((3*s.lossMilli+lost)/4, 400)
	default:
		if s.roundsAtSpeed++; s.roundsAtSpeed >= probeEvery {
			s.roundsAtSpeed = 0
			s.rate = min(s.rate*probeGain/1000, maxSearchRate)
		}
	}
}

func (s *rateSearch) sent(n units.Bytes)      { s.sentNow += n }
func (s *rateSearch) delivered(n units.Bytes) { s.deliveredNow += n }
