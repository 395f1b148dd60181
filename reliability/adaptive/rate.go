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
	// probeGain at first and twice as much each time that went well, up to
	// maxProbeGain.
	probeRounds  = 8
	probeGain    = 20
	maxProbeGain = 250
	// settleRounds is how long a restored rate is left alone.
	settleRounds = 32
)

// A rateState is what a rateController is doing.
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

// A rateController finds out that the paced rate is more than the path carries:
// the losses are then the sender's own doing. A Conn's transfers share one.
type rateController struct {
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

// budget returns how many units may be sent now, and when there will be more.
func (c *rateController) budget(now units.Instant, rtt units.Duration, each units.Bytes, budget int) (int, units.Instant) {
	if c.state == trust {
		return budget, units.Never
	}
	per := max(c.rate.Time(each), 1)
	// What was not used within 16 units, or what a worker may wake up late, is gone.
	c.spent = max(c.spent, now.Add(-max(16*per, rtt/8)))
	if c.spent > now {
		return 0, c.spent
	}
	return min(budget, int(now.Sub(c.spent)/per)+1), now.Add(per)
}

func (c *rateController) spend(each units.Bytes, n int) {
	c.sent += n
	if c.state != trust {
		c.spent = c.spent.Add(c.rate.Time(units.Bytes(n) * each))
	}
}

// update closes a round when its time has come.
func (c *rateController) update(now units.Instant, env *scheme.Env, each units.Bytes, m *model) {
	if c.begun == 0 {
		c.begun = now
	}
	elapsed := now.Sub(c.begun)
	if env.Rate <= 0 || elapsed < max(rtt(env), 4*interval(env)) {
		return
	}
	want := int(c.paced(env).Bytes(elapsed) / each)
	if elapsed < 2*rtt(env) && want > 0 && c.sentBefore*1000 >= want*busyEnough {
		c.evaluateRound(elapsed, want, env, each, m)
	} else {
		c.short = 0
	}
	c.sentBefore, c.sent, c.acked, c.lost, c.begun = c.sent, 0, 0, 0, now
}

// paced is the rate that is sent at now.
func (c *rateController) paced(env *scheme.Env) units.Rate {
	if c.state == trust {
		return env.Rate
	}
	return min(env.Rate, c.rate)
}

// evaluateRound looks at a round that answers one in which the sender was busy. A round is
// short when less arrived than was paced because it got lost.
func (c *rateController) evaluateRound(elapsed units.Duration, want int, env *scheme.Env, each units.Bytes, m *model) {
	delivered := units.RateOf(units.Bytes(c.acked)*each, elapsed) / 1000 * drain
	loss := int(float64(m.drop() * 1000))
	short := c.acked*1_000_000 < want*enough*(1000-loss) &&
		c.lost*1000 > (c.acked+c.lost)*(loss+tooLossy)
	c.quiet = max(0, c.quiet-1)
	switch c.state {
	case trust:
		if c.short++; !short || c.quiet > 0 {
			c.short = 0
		}
		if c.short >= 2 && delivered > 0 {
			c.test(delivered, env)
		}
	case tryLower:
		// What was sent before the test has to be answered first.
		if c.rounds++; c.rounds < 2 || c.sentBefore*1000 > want*1030 {
			return
		}
		c.short = 0
		if !short {
			// As much arrives at less: the drop rate has fallen.
			c.state, c.rounds, c.gain = keepLower, 0, probeGain
		} else {
			c.state, c.quiet = trust, settleRounds
		}
	case keepLower:
		c.probe(short, delivered, env)
	}
}

// test begins a test of a lower rate.
func (c *rateController) test(rate units.Rate, env *scheme.Env) {
	rate = max(rate, c.paced(env)/maxCut, env.Rate/leastShare)
	c.state, c.rate, c.rounds, c.short = tryLower, rate, 0, 0
}

// probe raises a lowered rate slowly, and lowers it again if less arrives.
func (c *rateController) probe(short bool, delivered units.Rate, env *scheme.Env) {
	if c.short++; !short {
		c.short = 0
	}
	if c.short >= 2 && delivered > 0 {
		// Less still, or the path's own loss after all: test again.
		c.test(delivered, env)
		return
	}
	if c.rounds++; c.rounds >= probeRounds {
		c.rounds = 0
		c.rate = c.rate / 1000 * units.Rate(1000+c.gain)
		c.gain = min(2*c.gain, maxProbeGain)
	}
	if c.rate >= env.Rate {
		c.state, c.quiet = trust, settleRounds
	}
}

// congested reports whether losses now are the sender's own doing, as far as is
// known.
func (c *rateController) congested() bool { return c.short > 0 || c.state == tryLower }

// explain says what was done about the rate, if anything.
func (c *rateController) explain() string {
	switch c.state {
	case tryLower:
		return fmt.Sprintf("; less arrives than was paced, trying %v", c.rate)
	case keepLower:
		return fmt.Sprintf("; the paced rate is more than arrives, sending at %v", c.rate)
	}
	return ""
}
