// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// The expectation of selective repeat: the paper's appendix A, whose text isn't available, derived
// anew.
//
// Unit i = 1..M leaves at t_start(i) = i·T_INJ and needs Y_i transmissions, Y_i geometric with
// success probability 1-p, each repeat costing O = RTO + T_INJ (section 4.2.2). It is through by
// time t iff Y_i ≤ J(i,t) = ⌊(t - t_start(i))/O⌋ + 1, so with independent drops
//
//	P(max X_i ≤ t) = Π_i (1 - p^J(i,t))   for t ≥ M·T_INJ,
//	E[T_SR] = RTT + M·T_INJ + ∫_{M·T_INJ}^∞ (1 - Π_i (1 - p^J(i,t))) dt.
//
// That is a renewal with ok(J) = 1 - p^J. Beyond the paper, repeats may take channel time: the
// sender always has something to send, so a share p of what it sends after the first RTO is
// repeats, and new units leave at 1-p of the rate. Units that leave after the first RTO are
// therefore spaced by T_INJ/(1-p). This is the fluid limit; it is exact as M·T_INJ/RTO grows.

func (s SR) meanDone(t Transfer) float64 {
	return s.meanUnits(t, float64(t.Units())) - t.short()
}

// meanUnits returns the expected time until n units are through.
func (s SR) meanUnits(t Transfer, n float64) float64 {
	r := renewal{n: n, space: t.inject(), period: s.rto(t) + t.inject(), share: float64(t.Drop)}
	if s.Overlap {
		r.share = 0
	}
	r.each.logOK = func(tries int) float64 { return math.Log1p(-math.Pow(float64(t.Drop), float64(tries))) }
	return r.mean()
}
