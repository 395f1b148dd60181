// SPDX-License-Identifier: Apache-2.0

package netsim

import "fmt"

// Loss describes how a link loses packets: independently of each other, or in
// bursts as a Gilbert–Elliott chain does (Gilbert 1960, Elliott 1963). The zero
// value loses nothing.
type Loss struct {
	// Drop is the fraction of packets lost in the long run, 0 to 1.
	Drop float64
	// Burst is the mean length of a burst in packets: of the chain's stay in
	// its bad state. 0 and 1 make losses independent.
	Burst float64
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
	if l.BurstDrop != 0 && !(l.BurstDrop >= l.Drop && l.BurstDrop <= 1) {
		return fmt.Errorf("drop probability within bursts %v: must be 0 (all is lost) or between the drop probability %v and 1", l.BurstDrop, l.Drop)
	}
	if !l.bursty() || l.Drop == l.inBurst() {
		return nil
	}
	// The share of time in the bad state follows from one stay in the good
	// state of at least one packet.
	if most := l.inBurst() * l.Burst / (l.Burst + 1); l.Drop > most {
		return fmt.Errorf("drop probability %v: at most %.4g is possible in bursts of mean %v", l.Drop, most, l.Burst)
	}
	return nil
}

// maxBurst keeps 1/Burst far above the resolution of a Prob.
const maxBurst = 1e9

func (l Loss) bursty() bool { return l.Burst > 1 }

func (l Loss) inBurst() float64 {
	if l.BurstDrop == 0 {
		return 1
	}
	return l.BurstDrop
}

// A LossProcess decides packet by packet. It draws the same number of times for
// each packet, whatever it decides.
type LossProcess struct {
	lose        Stream
	state       Stream
	drop        Prob // of a packet that is exposed to loss
	enter, stay Prob // the bad state, from the good and from the bad one
	bursty, bad bool
	started     bool
	share       Prob // of packets that meet the bad state
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
	p.bursty = l.bursty() && l.Drop < l.inBurst()
	if !p.bursty {
		p.drop = ProbOf(l.Drop)
		p.started = false
		return
	}
	p.drop = ProbOf(l.inBurst())
	p.share = mulDiv(ProbOf(l.Drop), one, p.drop)
	leave := ProbOf(1 / l.Burst)
	p.stay = one - leave
	// In the long run as many bursts end as begin: share·leave = (1−share)·enter.
	p.enter = mulDiv(p.share, leave, one-p.share)
}

// Lost decides about the next packet.
func (p *LossProcess) Lost() bool {
	if !p.bursty {
		return p.drop != 0 && p.lose.Hit(p.drop)
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
