// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// Success probabilities of the codes: the paper's appendix B, whose text isn't available, derived
// anew. A submessage has k data and m parity units, each lost independently with probability p.
//
// MDS: any k of the k+m units recover the submessage, so it succeeds iff at most m are lost:
//
//	P_MDS = Σ_{i=0}^{m} C(k+m,i) p^i (1-p)^(k+m-i).
//
// XOR: parity i covers the c_i data units j with j mod m = i. Each such class of c_i+1 units is a
// code of distance 2 and succeeds iff at most one of them is lost; the classes are disjoint, so
//
//	P_XOR = Π_{i=0}^{m-1} [ (1-p)^(c_i+1) + (c_i+1)·p·(1-p)^c_i ],  c_i = ⌈(k-i)/m⌉.
//
// (A class that lost only its parity needs nothing; the formula counts it as a success too.)

// A Code is a kind of erasure code.
type Code uint8

const (
	// MDS is maximum distance separable, such as Reed-Solomon: any k of k+m units recover all.
	MDS Code = iota
	// XOR has parity i cover the data units j with j mod m = i.
	XOR
)

// A group is a submessage: k data units followed by m parity units.
type group struct {
	code Code
	k, m int64
}

// newGroup leaves out XOR parity that would cover nothing.
func newGroup(code Code, k, m int64) group {
	if code == XOR {
		m = min(m, k)
	}
	return group{code, k, m}
}

func (g group) units() int64 { return g.k + g.m }

// class returns how many data units XOR parity i covers.
func (g group) class(i int64) int64 { return (g.k - i + g.m - 1) / g.m }

// fails returns 1-P_EC, precise also when it is tiny.
func (g group) fails(p float64) float64 {
	if g.code == MDS {
		return above(g.units(), g.m, p)
	}
	log := 0.0
	for i := range g.m {
		log += math.Log1p(-above(g.class(i)+1, 1, p))
	}
	return -math.Expm1(log)
}

// meanLacking returns how many units decoding lacks on average, given that it fails.
func (g group) meanLacking(p float64) float64 {
	fails := g.fails(p)
	if fails == 0 {
		return 0
	}
	sum := 0.0
	if g.code == MDS {
		for x := g.m; x < g.units(); x++ { // E[(X-m)+] = Σ P[X > x]
			sum += above(g.units(), x, p)
		}
		return sum / fails
	}
	for i := range g.m {
		for x := int64(1); x <= g.class(i); x++ {
			sum += above(g.class(i)+1, x, p)
		}
	}
	return sum / fails
}

// logComplete returns ln P(the group is complete) when a unit that decoding lacked has got through
// with probability 1-x since: ln E[(1-x)^lacking]. With x = 1 that is ln P_EC.
func (g group) logComplete(p, x float64) float64 {
	if g.code == MDS {
		return math.Log1p(-missed(g.units(), g.m, p, x))
	}
	log := 0.0
	for i := range g.m {
		log += math.Log1p(-missed(g.class(i)+1, 1, p, x))
	}
	return log
}

// missed returns 1 - E[(1-x)^(X-m)+] for X = Bin(n,p), precise also when it is tiny.
func missed(n, m int64, p, x float64) float64 {
	if p == 0 {
		return 0
	}
	sum, term := 0.0, binomial(n, m+1, p)
	for i := m + 1; i <= n; i++ {
		sum += term * -math.Expm1(float64(i-m)*math.Log1p(-x))
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return min(sum, 1)
}

// meanRows returns how many parity units pass on average until the group decodes, m if it doesn't.
func (g group) meanRows(p float64) float64 {
	sum := 0.0
	for r := range g.m { // E[R] = Σ P[R > r]
		if g.code == MDS {
			sum += above(g.k+r, r, p)
			continue
		}
		needs := int64(0) // data units whose parity is not among the first r
		for i := r; i < g.m; i++ {
			needs += g.class(i)
		}
		sum += -math.Expm1(float64(needs) * math.Log1p(-p))
	}
	return sum
}

// decode says what a loss pattern means: lacking is how many units must be repeated before the
// group decodes; if none, ready is how many units of the group have passed when it does. lost holds
// the lost units in order, data 0..k-1, parity k..k+m-1. count is scratch for m counters.
func (g group) decode(lost []int64, count []uint8) (ready, lacking int64) {
	if g.code == XOR {
		return g.decodeXOR(lost, count)
	}
	rows := int64(0) // parity units to wait for
	for _, u := range lost {
		if u < g.k {
			rows++
		} else if u-g.k < rows {
			rows++
		}
	}
	if int64(len(lost)) > g.m {
		return g.units(), int64(len(lost)) - g.m
	}
	return g.k + rows, 0
}

func (g group) decodeXOR(lost []int64, count []uint8) (ready, lacking int64) {
	clear(count[:g.m])
	ready = g.k
	for _, u := range lost {
		c := (u - g.k)
		if u < g.k {
			c = u % g.m
			ready = max(ready, g.k+c+1)
		}
		if count[c]++; count[c] > 1 {
			lacking++
		}
	}
	return ready, lacking
}
