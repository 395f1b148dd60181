// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
)

// A source draws drops. It is used by one goroutine.
type source struct {
	pcg     rand.PCG
	rnd     *rand.Rand
	drop    float64 // of a unit
	control float64 // of a control frame
	through int64   // how many more calls of lost return false
	skip    float64 // -1/ln(1-drop): mean of the exponential that a gap is the whole part of
	bursts  bursts
}

func newSource(t Transfer) *source {
	s := &source{drop: float64(t.Drop), control: float64(t.Control), bursts: newBursts(t)}
	s.skip = -1 / math.Log1p(-s.drop) // +Inf for drop 0
	s.rnd = rand.New(&s.pcg)
	return s
}

// seed starts stream n of a run: streams of one seed are independent of each other.
func (s *source) seed(seed, n uint64) {
	s.pcg.Seed(splitmix(seed), splitmix(seed+0x9e3779b97f4a7c15*(n+1)))
	s.through = s.single()
}

func splitmix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// endless is a gap beyond the end of any message, small enough to add to a unit's number.
const endless = 1 << 61

// begin starts a sample: bursts of the one before don't reach into it.
func (s *source) begin() { s.bursts.repeated = false }

// first starts a row of units sent one after the other, and returns how many get through before one is
// lost.
func (s *source) first() int64 {
	if s.bursts.on() {
		return s.bursts.first(s.rnd)
	}
	return s.single()
}

// gap returns how many units get through after a lost one before the next one is lost.
func (s *source) gap() int64 {
	if s.bursts.on() {
		return s.bursts.gap(s.rnd)
	}
	return s.single()
}

// goOn returns which unit of what follows a row is lost first, beyond being the next one lost of a row
// that has gone on.
func (s *source) goOn(beyond int64) int64 {
	if s.bursts.on() {
		return beyond
	}
	return s.single()
}

// single is gap without bursts: geometric, and the reason why cost grows with drops instead of units.
func (s *source) single() int64 {
	if s.drop == 0 {
		return endless
	}
	return int64(min(s.rnd.ExpFloat64()*s.skip, endless))
}

// lostAt decides about one unit outside a row, whose injection ends at that time.
func (s *source) lostAt(at float64) bool {
	if s.bursts.on() {
		return s.bursts.lostAt(at, s.rnd)
	}
	return s.lost()
}

// lost decides about one unit without bursts. It draws only when one is lost, as gap does.
func (s *source) lost() bool {
	if s.through--; s.through >= 0 {
		return false
	}
	s.through = s.single()
	return true
}

// controlLost decides about one control frame.
func (s *source) controlLost() bool { return s.control > 0 && s.rnd.Float64() < s.control }

// controlLostAgain decides about a control frame that is sent so many nanoseconds after one was lost.
func (s *source) controlLostAgain(after float64) bool {
	if !s.bursts.on() {
		return s.controlLost()
	}
	return s.rnd.Float64() < s.control+(1-s.control)*math.Exp(-after*s.bursts.fade)
}
