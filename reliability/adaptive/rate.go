// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// enough is what must be delivered of what was paced, but for the drop rate,
	// in thousandths.
	enough = 950
	// busyEnough is how much of the paced rate must have been used for a round
	// to say anything.
	busyEnough = 900
	// leastShare bounds how low a rate is tried, and maxCut by how much at once: a
	// round in which this machine did little looks like a slow path.
	leastShare = 64
	maxCut     = 2
	// tooLossy is how much the drop rate of a round must exceed the path's, in
	// thousandths: a sender or receiver that had no processor for a while delivers
	// less, too, but loses nothing.
	tooLossy = 30
	// drain is what is sent of what is delivered, so that a queue empties.
	drain = 980
	// probeRounds is after how many good rounds a lowered rate is raised, by
	// probeStep at first and twice as much each time that went well, up to
	// maxProbeStep.
	probeRounds  = 8
	probeStep    = 20
	maxProbeStep = 250
	// patientRounds is how long a restored rate is left alone.
	patientRounds = 32
)

// A rateState is what a governor is doing.
type rateState uint8

const (
	// trust: the paced rate is believed.
	trust rateState = iota
	// tryLower: a round is sent at the delivered rate, and the next one shows
	// what came of it.
	tryLower
	// keepLower: the paced rate was wrong.
	keepLower
)

// A governor finds out that the paced rate is more than the path carries
// (RELIABILITY, adaptive, 7): the losses are then the sender's own doing. A Conn's
// transfers share one.
type governor struct {
	state rateState
	// rate is the limit unless the paced rate is trusted, and spent the virtual
	// clock of the link that has it.
	rate   units.Rate
	spent  units.Instant
	begun  units.Instant
	rounds int
	short  int // rounds in a row that delivered too little
	quiet  int // rounds to leave the rate alone
	gain   int // of the next probe

	// Counts of this round, in units: sent, acknowledged and proved lost; and
	// units sent in the round before it, which it answers.
	sent, acked, lost int
	sentBefore        int
}

// limit returns how many units may be sent now, and when there will be more.
func (g *governor) limit(now units.Instant, rtt units.Duration, each units.Bytes, budget int) (int, units.Instant) {
	if g.state == trust {
		return budget, units.Never
	}
	per := max(g.rate.Time(each), 1)
	// What was not used within 16 units, or what a worker may wake up late, is gone.
	g.spent = max(g.spent, now.Add(-max(16*per, rtt/8)))
	if g.spent > now {
		return 0, g.spent
	}
	return min(budget, int(now.Sub(g.spent)/per)+1), now.Add(per)
}

func (g *governor) spend(each units.Bytes, n int) {
	g.sent += n
	if g.state != trust {
		g.spent = g.spent.Add(g.rate.Time(units.Bytes(n) * each))
	}
}

// step ends a round when its time has come.
func (g *governor) step(now units.Instant, env *scheme.Env, each units.Bytes, m *model) {
	if g.begun == 0 {
		g.begun = now
	}
	elapsed := now.Sub(g.begun)
	if env.Rate <= 0 || elapsed < max(rtt(env), 4*interval(env)) {
		return
	}
	want := int(g.paced(env).Bytes(elapsed) / each)
	if elapsed < 2*rtt(env) && want > 0 && g.sentBefore*1000 >= want*busyEnough {
		g.judge(elapsed, want, env, each, m)
	} else {
		g.short = 0
	}
	g.sentBefore, g.sent, g.acked, g.lost, g.begun = g.sent, 0, 0, 0, now
}

// paced is the rate that is sent at now.
func (g *governor) paced(env *scheme.Env) units.Rate {
	if g.state == trust {
		return env.Rate
	}
	return min(env.Rate, g.rate)
}

// judge looks at a round that answers one in which the sender was busy. A round is
// short when less arrived than was paced because it got lost.
func (g *governor) judge(elapsed units.Duration, want int, env *scheme.Env, each units.Bytes, m *model) {
	delivered := units.RateOf(units.Bytes(g.acked)*each, elapsed) / 1000 * drain
	loss := int(float64(m.drop() * 1000))
	short := g.acked*1_000_000 < want*enough*(1000-loss) &&
		g.lost*1000 > (g.acked+g.lost)*(loss+tooLossy)
	g.quiet = max(0, g.quiet-1)
	switch g.state {
	case trust:
		if g.short++; !short || g.quiet > 0 {
			g.short = 0
		}
		if g.short >= 2 && delivered > 0 {
			g.test(delivered, env)
		}
	case tryLower:
		// What was sent before the test has to be answered first.
		if g.rounds++; g.rounds < 2 || g.sentBefore*1000 > want*1030 {
			return
		}
		g.short = 0
		if !short {
			// As much arrives at less: the drop rate has fallen.
			g.state, g.rounds, g.gain = keepLower, 0, probeStep
		} else {
			g.state, g.quiet = trust, patientRounds
		}
	case keepLower:
		g.probe(short, delivered, env)
	}
}

// test begins a test of a lower rate.
func (g *governor) test(rate units.Rate, env *scheme.Env) {
	rate = max(rate, g.paced(env)/maxCut, env.Rate/leastShare)
	g.state, g.rate, g.rounds, g.short = tryLower, rate, 0, 0
}

// probe raises a lowered rate slowly, and lowers it again if less arrives.
func (g *governor) probe(short bool, delivered units.Rate, env *scheme.Env) {
	if g.short++; !short {
		g.short = 0
	}
	if g.short >= 2 && delivered > 0 {
		// Less still, or the path's own loss after all: test again.
		g.test(delivered, env)
		return
	}
	if g.rounds++; g.rounds >= probeRounds {
		g.rounds = 0
		g.rate = g.rate / 1000 * units.Rate(1000+g.gain)
		g.gain = min(2*g.gain, maxProbeStep)
	}
	if g.rate >= env.Rate {
		g.state, g.quiet = trust, patientRounds
	}
}

// congested reports whether losses now are the sender's own doing, as far as is
// known.
func (g *governor) congested() bool { return g.short > 0 || g.state == tryLower }

// explain says what was done about the rate, if anything.
func (g *governor) explain() string {
	switch g.state {
	case tryLower:
		return fmt.Sprintf("; less arrives than was paced, trying %v", g.rate)
	case keepLower:
		return fmt.Sprintf("; the paced rate is more than arrives, sending at %v", g.rate)
	}
	return ""
}
