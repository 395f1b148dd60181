// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// A spread is by how much packets take longer than the least round trip though no queue is there: the way has become a bit longer, or
// delays vary. Taken for a queue it would have the window shrink for ever, since a smaller one makes it no shorter. What proves it is
// that packets wait as long when less is in flight, twice in a row: in the drains of each downRounds a wait that is short, and a longer
// one in the probes of the least round trip. A queue becomes shorter by that, also where others fill it.
type spread struct {
	wait units.Duration // part of the product, and of no queue
	mean units.Duration // how much longer than that packets lately took, as the mean of a round

	before  units.Duration // mean when less began to be sent
	held    units.Bytes    // by how much; 0: there is nothing to judge
	suspect units.Duration // mean that didn't answer to that; 0: it did
}

const (
	// spreadMoves-th of a wait is how much less a queue would make of it.
	spreadMoves = 16
	// spreadTells times what packets wait is how long what was held back has to take at the path's rate.
	spreadTells = 2
	// spreadAgain-th is how much it may differ from one time to the next.
	spreadAgain = 8
)

// A spreadVerdict says what holding back has shown.
type spreadVerdict uint8

const (
	noSpread   spreadVerdict = iota // a queue, or nothing
	maySpread                       // a wait that didn't answer to it, for the first time
	thatSpread                      // the same again
)

// base is the round trip without queues.
func (b *bbr) base() units.Duration { return min(b.minRTT+b.spread.wait, maxRTT) }

// waited is how long packets waited in a round: the least of them, or where delays vary all the same the mean.
func (b *bbr) waited(r *bbrRound) units.Duration {
	if b.spread.wait > 0 {
		return b.meanWait(r)
	}
	return max(r.least-b.minRTT, 0)
}

// meanWait is how long they waited in it on average.
func (b *bbr) meanWait(r *bbrRound) units.Duration { return max(r.mean.value()-b.base(), 0) }

// holdBack notes that n bytes less are in flight from now on.
func (b *bbr) holdBack(n units.Bytes) { b.spread.before, b.spread.held = b.spread.mean, max(n, 0) }

// judgeSpread asks the round that has ended whether packets wait as long as before less was sent.
func (b *bbr) judgeSpread() spreadVerdict {
	s := &b.spread
	held := s.held
	s.held = 0
	wait := b.meanWait(&b.round)
	moved := max(s.before-wait, wait-s.before) > s.before/spreadMoves
	switch {
	case b.peak.Time(held) <= spreadTells*s.before:
		return noSpread
	case moved || wait <= b.bw().Time(b.queue())/2: // what is shorter costs no rate
		s.suspect = 0
		return noSpread
	case s.suspect > 0 && max(s.suspect-wait, wait-s.suspect) < s.suspect/spreadAgain:
		s.wait, s.suspect = s.wait+wait, 0
		return thatSpread
	}
	s.suspect = wait
	return maySpread
}

// narrow makes a spread shorter that is longer than what the round took: where the queue was drained, any, and elsewhere one of more than
// twice that, as others may have drained it.
func (b *bbr) narrow(drained bool) {
	mean := b.round.mean.value()
	wait := max(mean-b.minRTT, 0)
	if mean > 0 && (drained && wait < b.spread.wait || wait < b.spread.wait/2) {
		b.spread.wait = wait
	}
}
