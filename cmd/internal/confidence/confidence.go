// SPDX-License-Identifier: Apache-2.0

// Package confidence has the 95 % intervals that the programs show beside means.
//
// Its limit is the usual one: an interval of a mean supposes values that are drawn apart from each other and spread
// about normally, which few values can't prove.
package confidence

import "math"

// Normal is the 97.5th percentile of the normal distribution.
const Normal = 1.959963984540054

// Student is that of Student's t distribution with so many degrees of freedom, from 1: M. Abramowitz and I. Stegun,
// Handbook of Mathematical Functions, 26.7.5, and exactly where that is not good to a thousandth.
func Student(degrees float64) float64 {
	switch {
	case degrees < 1.5:
		return 12.706
	case degrees < 2.5:
		return 4.303
	}
	// Polynomials in z and 1/degrees, by Horner's rule.
	z, w, x := Normal, Normal*Normal, 1/degrees
	first := (w + 1) / 4
	second := ((5*w+16)*w + 3) / 96
	third := (((3*w+19)*w+17)*w - 15) / 384
	fourth := ((((79*w+776)*w+1482)*w-1920)*w - 945) / 92160
	return z * (1 + x*(first+x*(second+x*(third+x*fourth))))
}

// Mean is the mean of two values or more, and half of its interval's width.
func Mean(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, Student(n-1) * math.Sqrt(squares/(n-1)/n)
}
