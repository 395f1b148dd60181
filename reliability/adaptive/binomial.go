// SPDX-License-Identifier: Apache-2.0

package adaptive

// maxGroup is the largest k plus rows of an MDS code.
const maxGroup = 255

// A lossLaw is the distribution of losses in a group: beta-binomial, or binomial
// when correlation is 0.
//
// Only +, −, ·, / and explicit rounding are used: float64(x*y) may not be fused with
// an addition (Go specification, "Floating-point operators"), so that all platforms
// decide alike. Library functions such as Exp are not alike everywhere.
type lossLaw struct {
	// drop is the drop rate, 0 < drop < 1, and correlation ρ of two units of a
	// group, 0 ≤ ρ < 1.
	drop, correlation float64
}

// tooMany is P[more than m of n units are lost].
func (l lossLaw) tooMany(n, m int) float64 {
	if m >= n {
		return 0
	}
	// Success and failure in Pólya's urn: each draw adds ρ to its colour.
	a, b := l.drop, 1-l.drop
	if l.correlation > 0 {
		scale := (1 - l.correlation) / l.correlation
		a, b = float64(a*scale), float64(b*scale)
	}
	p := l.none(n, a, b)
	within := p
	for j := range m {
		p = float64(p * (float64(float64(n-j)*l.weight(a, j)) / float64(float64(j+1)*l.weight(b, n-j-1))))
		within += p
	}
	return max(0, 1-within)
}

// weight is the weight of a colour that was drawn j times, and was c at first.
func (l lossLaw) weight(c float64, j int) float64 {
	if l.correlation > 0 {
		return c + float64(j)
	}
	return c
}

// none is P[no unit is lost].
func (l lossLaw) none(n int, a, b float64) float64 {
	p := 1.0
	for i := range n {
		if l.correlation > 0 {
			p = float64(p * ((b + float64(i)) / (a + b + float64(i))))
		} else {
			p = float64(p * b)
		}
	}
	return p
}

// rowsFor is the least number of rows with which all of so many groups of k units
// can be decoded except with probability risk, at most limit.
func (l lossLaw) rowsFor(k, groups, limit int, risk float64) int {
	for m := 1; m < limit; m++ {
		if float64(float64(groups)*l.tooMany(k+m, m)) <= risk {
			return m
		}
	}
	return limit
}
