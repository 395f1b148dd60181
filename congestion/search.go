// SPDX-License-Identifier: Apache-2.0

package congestion

import "github.com/sdr-rdma/go-sdr/units"

// Search makes controllers that find the rate of a path whose round trip is too long for the
// receiver's window to do it, from a millisecond on; below, and where the line rate is known, they
// set no limit. They live on the driver's own smoothed and least round trip (Ack.Smoothed and
// Ack.Least). The window is two of the least round trips and two milliseconds at the rate, so that
// what is wrong about it fills no queue.
//
// Two of them share a link as they happen to meet, TCP beside them gets little, and on short paths
// they flood small queues: BBR is for links that others use.
func Search() Factory {
	return func(p Path) Controller { return &search{unit: min(max(p.MTU, 1), maxMTU), known: p.LineRate > 0} }
}

// A search starts at 16 units a round trip and doubles each round
// trip, in quarters, until what is delivered stays behind what was asked for a round
// trip before. Then it paces at the best delivery rate of the last rounds, a little
// above it now and then to see whether there is more, and below it next to drain
// what that queued. Loss alone doesn't slow it down: what is delivered does.
type search struct {
	unit       units.Bytes
	known      bool // the rate needs no search
	rtt, least units.Duration

	state  searchState
	rate   units.Rate
	behind int // quarters in a row of doubling that delivered less than was asked
	gain   int // which of gains the round has, in steady
	grown  int // rounds that delivered more than ever, since a probe that didn't

	begun    units.Instant
	current  quarter
	past     [2*perRound + 1]quarter // the newest first
	quarters int                     // of this round that are over

	rounds [bestRounds]units.Rate // delivery rates of the last rounds that tell something
	at     int
}

// searchState is what a search does.
type searchState uint8

const (
	// unlimited: the round trip is short, or not known yet.
	unlimited searchState = iota
	// doubling: nobody knows how much the path carries.
	doubling
	// draining: half of what it carries is sent for a round trip, so that what doubling queued leaves.
	draining
	// steady: the best delivery rate, and in turn with it the gains.
	steady
)

// A quarter is what was sent and delivered in a quarter of a round trip.
type quarter struct {
	took      units.Duration
	sent, got units.Bytes
	busy      bool // the rate limited what was sent, not want of data
}

// shortRTT is the round trip below which a rate isn't searched for.
const shortRTT = units.Millisecond

const (
	firstUnits = 16
	perRound   = 4
	// doublingGain is the fourth root of 2, in thousandths.
	doublingGain = 1189
	// mostAhead is how many thousandths of what was delivered the rate may become by
	// doubling. The round trip that it is ahead takes some 2200; transfers shorter than that
	// bring no answer while they are sent, and each would raise it again.
	mostAhead = 2500
	// enoughBehind is how many quarters must deliver too little to end doubling.
	enoughBehind = perRound
	// bestRounds is how many rounds the best delivery rate is remembered.
	bestRounds    = 10
	minSearchRate = units.Mbit
	maxSearchRate = 10 * units.Tbit
)

// gains are those of the rounds of steady, in thousandths of the best delivery rate. The
// second is the probe, which is answered in the round after it; after enoughGrown
// probes that found more, doubling begins anew.
var gains = [...]units.Rate{1000, 1100, 920, 1000, 1000, 1000, 1000, 1000}

const (
	probed      = 2
	enoughGrown = 2
)

// step moves to the next quarter when its time has come, and returns the rate, 0 for
// no limit.
func (s *search) step(now units.Instant) units.Rate {
	if s.least < shortRTT { // one sample may be late by a scheduler's whim; the least is the path
		s.state = unlimited
		return 0
	}
	if s.state == unlimited {
		*s = search{unit: s.unit, rtt: s.rtt, least: s.least, state: doubling, begun: now}
		s.set(units.RateOf(firstUnits*s.unit, s.rtt))
	}
	rtt := max(s.rtt, s.least)
	switch took := now.Sub(s.begun); {
	case took >= rtt:
		// There was nothing to do for so long; what was asked before has been answered.
		clear(s.past[:])
		s.current, s.begun, s.behind, s.quarters = quarter{}, now, 0, 0
		s.endDraining()
	case took >= rtt/perRound:
		// If nobody looked for some quarters, as there was little to do, what was sent
		// went in the first of them, and what arrived did so now.
		n := max(1, int(took*perRound/rtt))
		sent, got := s.current.sent, s.current.got
		s.current, s.begun = quarter{}, now
		for i := range n {
			q := quarter{took: took / units.Duration(n), sent: sent}
			q.busy = q.sent*10 >= s.rate.Bytes(q.took)*9
			if sent = 0; i == n-1 {
				q.got = got
			}
			s.endQuarter(q)
		}
	}
	return s.rate
}

func (s *search) endQuarter(q quarter) {
	copy(s.past[1:], s.past[:])
	s.past[0] = q
	if s.state == doubling {
		s.grow()
		return
	}
	if s.quarters++; s.quarters == perRound {
		s.quarters = 0
		s.endRound()
	}
}

// rates returns what n quarters delivered, and what was asked in those a round trip
// before, which they answer. Acknowledgements that were held up come in clumps, so
// nothing counts as delivered faster than anything was sent lately.
func (s *search) rates(n int) (got, asked units.Rate) {
	var g, a quarter
	for i := range n {
		g.got, g.took = g.got+s.past[i].got, g.took+s.past[i].took
		before := s.past[i+perRound]
		a.sent, a.took = a.sent+before.sent, a.took+before.took
	}
	most := units.Rate(0)
	for _, q := range s.past[perRound-1:] {
		if q.took > 0 {
			most = max(most, units.RateOf(q.sent, q.took))
		}
	}
	if a.took > 0 {
		asked = units.RateOf(a.sent, a.took)
	}
	return min(units.RateOf(g.got, g.took), most), asked
}

// grow is a quarter of doubling.
func (s *search) grow() {
	got, asked := s.rates(perRound / 2)
	proved := got
	if !s.past[perRound].busy || !s.past[perRound+1].busy {
		proved, _ = s.rates(perRound) // a short transfer, whose answer came at once
	}
	if proved > s.best() {
		s.note(proved)
	}
	switch {
	case s.past[0].got == 0: // the end of a transfer, or a stall: this tells nothing
	case asked > got+got/4:
		s.behind++
	default:
		s.behind = 0
	}
	switch {
	case s.behind >= enoughBehind && s.best() > 0:
		s.state, s.quarters = draining, 0
		s.set(s.best() / 2)
	case s.behind == 0 && s.past[0].busy:
		r := s.rate / 1000 * doublingGain
		if best := s.best(); best > 0 {
			r = min(r, max(s.rate, best/1000*mostAhead))
		}
		s.set(r)
	}
}

// endRound judges a round of steady, if it tells anything: it answers one that
// was limited by the rate, or more was asked than arrived, or more arrived than ever.
func (s *search) endRound() {
	if s.state == draining {
		s.endDraining()
		return
	}
	got, _ := s.rates(perRound)
	if !s.busy() && !s.lacking() && got <= s.best() {
		return
	}
	before := s.best()
	switch {
	case got > before+before/25:
		s.grown++
	case s.gain == probed:
		s.grown = 0
	}
	s.note(got)
	s.gain = (s.gain + 1) % len(gains)
	s.set(s.best() / 1000 * gains[s.gain])
	if s.grown == enoughGrown {
		s.state, s.behind, s.grown = doubling, 0, 0 // there is much more
	}
}

// endDraining goes on to steady: what doubling queued has left.
func (s *search) endDraining() {
	if s.state == draining {
		s.state, s.gain = steady, 0
		s.set(s.best())
	}
}

// busy reports whether the rate limited the last two rounds throughout.
func (s *search) busy() bool {
	for i := range 2 * perRound {
		if !s.past[i].busy {
			return false
		}
	}
	return true
}

// lacking reports whether less arrived in the last round than was asked in the one
// before, though acknowledgements had a quarter more to arrive: short transfers
// leave gaps, which must not look like a slow path.
func (s *search) lacking() bool {
	var asked, got units.Bytes
	for i := range perRound {
		asked += s.past[i+perRound+1].sent
		got += s.past[i].got
	}
	got += s.past[perRound].got
	return got > 0 && asked > got+got/8
}

func (s *search) note(r units.Rate) {
	s.rounds[s.at%bestRounds] = r
	s.at++
}

func (s *search) set(r units.Rate) { s.rate = min(max(r, minSearchRate), maxSearchRate) }

// best is the highest delivery rate of the rounds remembered.
func (s *search) best() (r units.Rate) {
	for _, x := range s.rounds {
		r = max(r, x)
	}
	return r
}

// OnSent books what was sent.
func (s *search) OnSent(_ units.Instant, n, _ units.Bytes) {
	s.current.sent = min(s.current.sent+min(max(n, 0), mostCounted), mostCounted)
}

// OnAck books what was delivered.
func (s *search) OnAck(_ units.Instant, a *Ack) {
	s.current.got = min(s.current.got+min(max(a.Acked, 0), mostCounted), mostCounted)
	if a.Least > 0 {
		s.rtt, s.least = min(a.Smoothed, maxRTT), min(a.Least, maxRTT)
	}
}

// OnCNP does nothing.
func (s *search) OnCNP(units.Instant) {}

// OnLoss takes back what nobody will hear of. What is lost is known by what is delivered.
func (s *search) OnLoss(_ units.Instant, l Loss) {
	if l.Kind == LossUnacknowledged {
		s.takeBack(max(l.Bytes, 0))
	}
}

// Limits moves the search on to now.
func (s *search) Limits(now units.Instant) (units.Rate, units.Bytes) {
	if s.known {
		return 0, 0
	}
	r := s.step(now)
	if r == 0 {
		return 0, 0
	}
	return r, max(firstUnits*s.unit, r.Bytes(2*s.least+2*units.Millisecond))
}

// Next is never: a driver that doesn't call for some quarters is made up for.
func (s *search) Next() units.Instant { return units.Never }

// takeBack forgets that n bytes were sent, the last ones: nobody will say what became
// of them.
func (s *search) takeBack(n units.Bytes) {
	take := func(q *quarter) {
		m := min(n, q.sent)
		q.sent, n = q.sent-m, n-m
	}
	take(&s.current)
	for i := range s.past {
		take(&s.past[i])
	}
}
