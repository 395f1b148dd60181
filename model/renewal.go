// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// A renewal is the closed form that selective repeat and erasure coding share. Items 1..n, and
// perhaps a last one that differs, leave at times s(i) and, when they fail, try again once every
// period; the transfer is done when the last item is. With J(i,t) tries of item i finished by time t,
//
//	P(done ≤ t) = Π_i ok(J(i,t)),  E[done] = end + ∫_{end}^∞ (1 - P(done ≤ t)) dt,
//
// where end is the time of the last item's first try. All items with the same J are counted at
// once, so the cost doesn't depend on n.
type renewal struct {
	n      float64 // items that are alike
	space  float64 // time between them when nothing is repeated
	period float64
	share  float64 // part of the channel that repeats take once the first of them are due
	each   tries
	tail   float64 // time that the last item takes after the others
	last   *tries  // nil if there is none
}

// tries holds ln P(an item is through after that many tries).
type tries struct {
	logOK func(tries int) float64
	known []float64 // of 1, 2, …
}

func (t *tries) ok(n int) float64 {
	for len(t.known) < n {
		t.known = append(t.known, t.logOK(len(t.known)+1))
	}
	return t.known[n-1]
}

// start returns s(x). Until the first repeats are due the items follow each other; from then on
// repeats take their share of a channel that is always full.
func (r *renewal) start(x float64) float64 {
	s := x * r.space
	if full := r.full(); s > full {
		s = full + (s-full)/(1-r.share)
	}
	return s
}

// full returns when the first repeats take their share.
func (r *renewal) full() float64 { return r.space + r.period }

func (r *renewal) end() float64 { return r.start(r.n) + r.tail }

// fewItems is how many items are looked at one by one. More are taken as a continuum.
const fewItems = 64

// count returns how many items have s(i) ≤ t.
func (r *renewal) count(t float64) float64 {
	if full := r.full(); t > full {
		t = full + (t-full)*(1-r.share)
	}
	n := min(max(t/r.space, 0), r.n)
	if r.n <= fewItems {
		n = math.Floor(n + 1e-9)
	}
	return n
}

// late returns P(done > end+x) for x ≥ 0.
func (r *renewal) late(x float64) float64 {
	log, above := 0.0, 0.0
	if r.last != nil {
		log = r.last.ok(int(x/r.period) + 1)
	}
	t := r.end() + x
	for j := int((x+r.tail)/r.period) + 1; above < r.n; j++ {
		upTo := r.count(t - float64(j)*r.period) // items with more than j tries
		if in := r.n - above - upTo; in > 0 {
			log += in * r.each.ok(j)
		}
		if upTo == 0 || -upTo*r.each.ok(j) < 1e-15 {
			break
		}
		above = r.n - upTo
	}
	return -math.Expm1(log)
}

// mean integrates late, piece by piece: between the times at which an item ends a try, it is
// constant for few items and smooth for many. Times count from end: of one of days a piece of
// microseconds is less than a float64 resolves.
func (r *renewal) mean() float64 {
	sum, from, phases := 0.0, 0.0, r.phases()
	for r.late(from+1e-6*r.period) > 1e-9 {
		to := math.Inf(1)
		for _, phase := range phases {
			to = min(to, after(from, phase, r.period))
		}
		if r.n <= fewItems {
			sum += r.late((from+to)/2) * (to - from)
		} else {
			sum += simpson(r.late, from, to, 32)
		}
		from = to
	}
	return r.end() + sum
}

// phases returns for each item how long after end it ends its first try there, above 0 to one period.
// Of a continuum only the first and the last item matter, besides the last one.
func (r *renewal) phases() []float64 {
	end, step := r.end(), max(1, r.n-1)
	if r.n <= fewItems {
		step = 1
	}
	phases := []float64{r.period}
	for i := 1.0; i <= r.n; i += step {
		phases = append(phases, r.period-math.Mod(end-r.start(i), r.period))
	}
	return phases
}

// after returns the first of phase, phase+period, phase+2·period, … that is after x ≥ 0, by more than
// rounding.
func after(x, phase, period float64) float64 {
	return phase + (math.Floor((x-phase)/period+1e-9)+1)*period
}

// simpson integrates f from a to b with 2n intervals. The ends are taken from inside, because f may
// jump there.
func simpson(f func(float64) float64, a, b float64, n int) float64 {
	h, eps := (b-a)/float64(2*n), (b-a)*1e-9
	sum := f(a+eps) + f(b-eps)
	for i := 1; i < 2*n; i++ {
		sum += f(a+float64(i)*h) * float64(2+2*(i&1))
	}
	return sum * h / 3
}
