// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// The expectation of the adaptive scheme. A group of k units is decoded by its first r parity rows
// iff at most r of the k+r units are lost: P_r = P[Bin(k+r,p) ≤ r]. Rows go out interleaved, so
// after row r-1 of all D groups and row r of j of them, all are decoded with probability
// P_{r-1}^(D-j) · P_r^j, and the expected number of parity units that must pass is the sum of the
// complements. A group that fails costs another RTT and half an ack interval.

func (a Adaptive) meanDone(t Transfer) float64 {
	a = a.defaults()
	c, p := a.choose(t), float64(t.Drop)
	repeats := float64(c.Body) * p / (1 - p) // of body units, all of them while data is sent
	wait, fails := parityWait(c, p)
	if c.Body > 0 {
		w, f := a.lateWait(t, c)
		wait, fails = max(wait, w), 1-(1-fails)*(1-f)
	}
	done := (float64(c.Body+c.Tail)+repeats+wait)*t.inject() - t.short()
	round := (1 + a.AckInterval*(0.5+float64(t.Control))) * t.rtt()
	for f := fails; f > 1e-9; f *= a.Epsilon {
		done += f * round
	}
	g := newGroup(MDS, c.K, c.M)
	rows := float64(c.Groups) * g.fails(p) * g.meanLacking(p) / (1 - p) // sent in repair rounds
	return done + rows*t.inject()
}

// lateWait is parityWait for the repeats that the tail sends: n on average. The last of them falls
// due a reaction time after the last loss of the body. If one of them is lost they wait for the
// parity of their batch, which follows the tail's.
func (a Adaptive) lateWait(t Transfer, c Choice) (units, fails float64) {
	slots, p := a.reaction(t)/t.inject(), float64(t.Drop)
	losable := min(float64(c.Body), slots)
	n := losable * p
	due := slots - losable/(n+1) - float64(c.Tail) - n
	batch := Choice{Tail: int64(math.Round(n))}
	batch.Groups, batch.K, batch.M = a.parity(batch.Tail, t.law())
	units, fails = parityWait(batch, p)
	lost := -math.Expm1(n * math.Log1p(-p))
	return lost*max(due, float64(c.Groups*c.M)) + (1-lost)*due + units, fails
}

// parityWait returns the expected number of parity units that pass until all groups are decoded,
// and the probability that some are not.
func parityWait(c Choice, p float64) (units, fails float64) {
	groups := float64(c.Groups)
	all := groups * math.Log1p(-above(c.K, 0, p)) // ln P(all groups decoded so far)
	for r := range c.M {
		next := groups * math.Log1p(-above(c.K+r+1, r+1, p))
		units += rowWait(all, next, groups)
		all = next
	}
	return units, -math.Expm1(all)
}

// rowWait sums 1 - P over the units of one row, where ln P goes from a to b in n equal steps.
func rowWait(a, b, n float64) float64 {
	if a == b {
		return n * -math.Expm1(a)
	}
	if math.IsInf(a, -1) {
		return n
	}
	// ∫_0^n (1 - e^(a+(b-a)x/n)) dx
	return n - n*(math.Exp(b)-math.Exp(a))/(b-a)
}
