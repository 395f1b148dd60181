// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// fallback returns 1 - (1-q)^n·(1-qLast).
func fallback(n, q, qLast float64) float64 {
	if n == 0 {
		return qLast
	}
	return -math.Expm1(n*math.Log1p(-q) + math.Log1p(-qLast))
}

func (e EC) meanDone(t Transfer) float64 {
	if e.Fallback == Whole {
		return e.meanWhole(t)
	}
	return e.meanMissing(t)
}

// meanWhole is the paper's E[T_EC(M)] without its RTT (section 4.2.3), with one correction: the
// paper takes E[T_SR] of the expected number of failures, which is below the expectation of
// T_SR (it isn't linear), and above it when failures are rare. Here T_SR is averaged over the
// number of failures, which is binomial.
func (e EC) meanWhole(t Transfer) float64 {
	p := float64(t.Drop)
	groups, full, last := e.split(t)
	q, qLast := full.fails(p), last.fails(p)
	done := float64((groups-1)*full.units()+last.units())*t.inject() - t.short()

	timeout := (1 + e.Beta) * t.rtt()
	after := func(repeated int64) float64 {
		if repeated == 0 {
			return 0
		}
		return timeout + SR{Alpha: e.Alpha}.meanUnits(t, float64(repeated))
	}
	sum, weight := 0.0, 0.0
	mean, spread := float64(groups-1)*q, 8*math.Sqrt(float64(groups-1)*q*(1-q))+8
	from, to := int64(max(mean-spread, 0)), min(groups-1, int64(mean+spread))
	for n := from; n <= to; n += 1 + (to-from)/64 {
		w := binomial(groups-1, n, q)
		weight += w
		sum += w * ((1-qLast)*after(n*full.k) + qLast*after(n*full.k+last.k))
	}
	return done + sum/weight
}

// meanMissing treats submessages as the items of a renewal whose tries are RTT·(1+Beta) apart: the
// first try is decoding, and each later one repeats every unit that decoding lacked and that the
// tries before it didn't bring. A unit to repeat takes 1/(1-p) transmissions until it gets through, so
// that a submessage of U units which lacks L on average takes the time of U + L/(1-p), of which the
// second part is the channel's share of repeats.
func (e EC) meanMissing(t Transfer) float64 {
	p := float64(t.Drop)
	groups, full, last := e.split(t)
	repeats := full.fails(p) * full.meanLacking(p) / (1 - p) // per submessage
	r := renewal{
		n: float64(groups - 1), space: float64(full.units()) * t.inject(),
		period: (1+e.Beta)*t.rtt() + max(1, last.meanLacking(p))*t.inject(),
		share:  repeats / (float64(full.units()) + repeats),
		each:   tries{logOK: full.afterTries(p)},
		tail:   float64(last.units()) * t.inject(),
		last:   &tries{logOK: last.afterTries(p)},
	}
	// When the last submessage needs no repeat, it needs not all of its parity either.
	unused := (float64(last.m) - last.meanRows(p)) * t.inject()
	return r.mean() - t.short() - unused*(1-r.late(0))
}

func (g group) afterTries(p float64) func(int) float64 {
	return func(tries int) float64 { return g.logComplete(p, math.Pow(p, float64(tries-1))) }
}
