// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// binomial returns P[Bin(n,p) = x].
func binomial(n, x int64, p float64) float64 {
	switch {
	case x < 0 || x > n:
		return 0
	case p == 0 && x == 0, p == 1 && x == n:
		return 1
	case p == 0, p == 1:
		return 0
	}
	return math.Exp(logChoose(n, x) + float64(x)*math.Log(p) + float64(n-x)*math.Log1p(-p))
}

func logChoose(n, x int64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(x + 1))
	c, _ := math.Lgamma(float64(n - x + 1))
	return a - b - c
}

// above returns P[Bin(n,p) > x]. It sums the smaller tail, so that small probabilities keep their
// precision.
func above(n, x int64, p float64) float64 {
	if x >= n || p == 0 {
		return 0
	}
	if x < 0 {
		return 1
	}
	if float64(x) < float64(n)*p {
		sum, term := 0.0, binomial(n, x, p)
		for i := x; i >= 0 && term > sum*1e-17; i-- {
			sum += term
			term *= float64(i) / float64(n-i+1) * (1 - p) / p
		}
		return 1 - sum
	}
	sum, term := 0.0, binomial(n, x+1, p)
	for i := x + 1; i <= n && term > sum*1e-17; i++ {
		sum += term
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}
