// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"fmt"
	"math/bits"

	"github.com/sdr-rdma/go-sdr/units"
)

// Loss describes how a link loses packets: independently of each other, or in
// bursts as a Gilbert–Elliott chain does (Gilbert 1960, Elliott 1963). The zero
// value loses nothing.
//
// A burst has a length in packets, or in time. The chain in packets stands still while
// none come: on a quiet way, such as that of acknowledgements, a burst of 32 packets,
// microseconds of a full link, is a silence of as many of them, however rare they are.
// That is a stress, no network. In time both ways lose for as long.
type Loss struct {
	// Drop is the fraction of packets lost in the long run, 0 to 1.
	Drop float64
	// Burst is the mean length of a burst in packets: of the chain's stay in
	// its bad state. 0 and 1 make losses independent.
	Burst float64
	// BurstTime is the mean length of a burst in time, for Burst; 0: bursts are counted
	// in packets. Both states then last as long as exponential draws say.
	BurstTime units.Duration
	// BurstDrop is the probability with which a packet of a burst is lost,
	// Drop to 1; 0 stands for 1. Outside bursts nothing is lost.
	BurstDrop float64
}

// Validate says what is wrong with l, if anything.
func (l Loss) Validate() error {
	if !(l.Drop >= 0 && l.Drop <= 1) {
		return fmt.Errorf("drop probability %v: must be between 0 and 1", l.Drop)
	}
	if l.Burst != 0 && !(l.Burst >= 1 && l.Burst <= maxBurst) {
		return fmt.Errorf("mean burst of %v packets: must be 0 (independent losses) or between 1 and %v", l.Burst, maxBurst)
	}
	switch {
	case l.BurstTime < 0 || l.BurstTime > maxDelay:
		return fmt.Errorf("mean burst of %d ns: must be between 0 (counted in packets) and %v", int64(l.BurstTime), units.FormatDuration(maxDelay))
	case l.BurstTime > 0 && l.Burst > 1:
		return fmt.Errorf("mean burst of %v and of %v packets: choose one", units.FormatDuration(l.BurstTime), l.Burst)
	}
	if l.BurstDrop != 0 && !(l.BurstDrop >= l.Drop && l.BurstDrop <= 1) {
		return fmt.Errorf("drop probability within bursts %v: must be 0 (all is lost) or between the drop probability %v and 1", l.BurstDrop, l.Drop)
	}
	if !l.bursty() || l.Drop == l.inBurst() {
		return nil
	}
	if l.BurstTime > 0 {
		return nil
	}
	// The share of time in the bad state follows from one stay in the good
	// state of at least one packet.
	if most := l.inBurst() * l.Burst / (l.Burst + 1); l.Drop > most {
		return fmt.Errorf("drop probability %v: at most %.4g is possible in bursts of mean %v", l.Drop, most, l.Burst)
	}
	return nil
}

// maxStay is the longest mean of a good state in time, two hours: what is rarer doesn't
// happen, and draws of forty times as much stay below Never.
const maxStay = Time(7200) * 1_000_000_000_000

// maxBurst keeps 1/Burst far above the resolution of a Prob.
const maxBurst = 1e9

func (l Loss) bursty() bool { return l.Burst > 1 || l.BurstTime > 0 }

func (l Loss) inBurst() float64 {
	if l.BurstDrop == 0 {
		return 1
	}
	return l.BurstDrop
}

// What a LossProcess's chain counts its stays in.
type chain uint8

const (
	noChain   chain = iota // losses are independent
	inPackets              // it moves at each packet
	inTime                 // a stay lasts for an exponential time
)

// A LossProcess decides packet by packet. It draws the same number of times for
// each packet, whatever it decides.
type LossProcess struct {
	lose        Stream
	state       Stream
	drop        Prob // of a packet that is exposed to loss
	enter, stay Prob // the bad state, from the good and from the bad one
	chain       chain
	bad         bool // the state, once started
	started     bool
	share       Prob // of packets, or of the time, that meet the bad state
	// In time: how long the good and the bad state last on average, and until when this one does.
	stays [2]Time
	until Time
}

// NewLossProcess starts a process. l must be valid.
func NewLossProcess(l Loss, seed uint64) LossProcess {
	p := LossProcess{lose: newStream(seed, forLoss), state: newStream(seed, forBurst)}
	p.Configure(l)
	return p
}

// Configure changes the parameters from the next packet on and goes on with the
// draws, so that a change of the drop probability does not start them again.
func (p *LossProcess) Configure(l Loss) {
	if !l.bursty() || l.Drop >= l.inBurst() || l.BurstTime > 0 && l.Drop == 0 { // no good state lasts for ever
		p.chain, p.drop, p.started = noChain, ProbOf(l.Drop), false
		return
	}
	p.drop = ProbOf(l.inBurst())
	p.share = mulDiv(ProbOf(l.Drop), one, p.drop)
	if l.BurstTime > 0 {
		bad := min(Span(l.BurstTime), maxStay)
		good := maxStay
		if p.share > 0 {
			hi, lo := bits.Mul64(uint64(bad), uint64(one-p.share))
			if hi < uint64(p.share) {
				q, _ := bits.Div64(hi, lo, uint64(p.share))
				good = Time(min(q, uint64(maxStay)))
			}
		}
		p.chain, p.stays = inTime, [2]Time{good, bad}
		return
	}
	p.chain = inPackets
	leave := ProbOf(1 / l.Burst)
	p.stay = one - leave
	// In the long run as many bursts end as begin: share·leave = (1−share)·enter.
	p.enter = mulDiv(p.share, leave, one-p.share)
}

// Lost decides about the next packet, but for bursts in time, of which LostAt knows whether
// it meets one.
func (p *LossProcess) Lost() bool {
	switch p.chain {
	case noChain:
		return p.drop != 0 && p.lose.Hit(p.drop)
	case inTime:
		return p.lose.Hit(p.drop)
	}
	switch {
	case !p.started:
		p.bad, p.started = p.state.Hit(p.share), true
	case p.bad:
		p.bad = p.state.Hit(p.stay)
	default:
		p.bad = p.state.Hit(p.enter)
	}
	return p.lose.Hit(p.drop) && p.bad
}

// forgotten is how many times a chain in time has gone through both its states, on average, when the one that it was in before
// says nothing any more of the one that it is in: far fewer would do, and this many are walked through in 10 ms.
const forgotten = 1 << 16

// LostAt decides about the next packet, which passes at that time. It must not go back.
func (p *LossProcess) LostAt(at Time) bool { return p.Lost() && p.badAt(at) }

// badAt reports whether a packet that passes at that time, which must not go back, may
// be lost: always, but where bursts have a length in time.
func (p *LossProcess) badAt(at Time) bool {
	if p.chain != inTime {
		return true
	}
	if (at-p.until)/forgotten > p.stays[0]+p.stays[1] {
		p.started = false
	}
	if !p.started {
		p.started, p.bad = true, p.state.Hit(p.share)
		p.until = at.Add(p.state.exponential(p.stays[index(p.bad)]))
	}
	for at >= p.until {
		p.bad = !p.bad
		p.until = p.until.Add(p.state.exponential(p.stays[index(p.bad)]))
	}
	return p.bad
}

func index(bad bool) int {
	if bad {
		return 1
	}
	return 0
}
