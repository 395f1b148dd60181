// SPDX-License-Identifier: Apache-2.0

package adaptive

// maxGroup is the largest k plus rows of an MDS code.
const maxGroup = 255

// A lossLaw is the distribution of how many units of a group get lost: binomial where they are lost independently of each other,
// beta-binomial where correlation is above 0.
//
// It is that of Pólya's urn with balls for lost and kept units. One is drawn for each unit, and put back; where losses are correlated
// with one more of its kind, so that a loss makes more of them likely.
//
// Only +, −, ·, / and explicit rounding are used: float64(x*y) may not be fused with
// an addition (Go specification, "Floating-point operators"), so that all platforms
// decide alike. Library functions such as Exp are not alike everywhere.
type lossLaw struct {
	// drop is the drop rate, 0 < drop < 1, and correlation ρ of two units of a
	// group, 0 ≤ ρ < 1.
	drop, correlation float64
}

// above is P[more than m of n units are lost].
func (l lossLaw) above(n, m int) float64 {
	if m >= n {
		return 0
	}
	lost, kept := l.balls()
	p := l.none(n, lost, kept)
	within := p
	for j := range m {
		// From P[j are lost] to P[j+1 are]: there are (n-j)/(j+1) times as many orders, and in each a ball for a kept unit, the
		// (n-j)-th of its kind, gives way to one for a lost unit, the (j+1)-th.
		p = float64(p * (float64(float64(n-j)*l.after(lost, j)) / float64(float64(j+1)*l.after(kept, n-j-1))))
		within += p
	}
	return max(0, 1-within)
}

// balls is how many there are of each kind at first: a share of 1, or of as many that one more makes the correlation.
func (l lossLaw) balls() (lost, kept float64) {
	lost, kept = l.drop, 1-l.drop
	if l.correlation > 0 {
		all := (1 - l.correlation) / l.correlation
		lost, kept = float64(lost*all), float64(kept*all)
	}
	return lost, kept
}

// after is how many balls there are of a kind that there were so many of at first, when j of it have been drawn.
func (l lossLaw) after(first float64, j int) float64 {
	if l.correlation > 0 {
		return first + float64(j)
	}
	return first
}

// none is P[no unit of n is lost].
func (l lossLaw) none(n int, lost, kept float64) float64 {
	p := 1.0
	for i := range n {
		if l.correlation > 0 {
			p = float64(p * ((kept + float64(i)) / (lost + kept + float64(i))))
		} else {
			p = float64(p * kept)
		}
	}
	return p
}

// rowsFor is the least number of rows with which all of so many groups of k units
// can be decoded except with probability risk, at most limit.
func (l lossLaw) rowsFor(k, groups, limit int, risk float64) int {
	for m := 1; m < limit; m++ {
		if float64(float64(groups)*l.above(k+m, m)) <= risk {
			return m
		}
	}
	return limit
}
