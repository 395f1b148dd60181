// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/sdr-rdma/go-sdr/units"

// BestSplit returns e with the K and M that make the expected completion time of t shortest, and that
// time. K is a power of two up to 128 or the 224 of the adaptive scheme. For up to [Negligible] more it
// takes a split that falls back in less than one of a thousand transfers, which keeps the tail short
// too. It fails with [ErrRange].
func (e EC) BestSplit(t Transfer) (EC, units.Duration, error) {
	var best, rare EC
	var bestMean, rareMean units.Duration
	for _, k := range []int64{8, 16, 32, 64, 128, maxTailGroup} {
		for m := int64(1); m <= k && k+m <= MaxGroup; m += max(1, m/4) {
			e.K, e.M = k, m
			mean, err := Mean(e, t)
			if err != nil {
				return e, 0, err
			}
			if bestMean == 0 || mean < bestMean {
				best, bestMean = e, mean
			}
			fallback, _ := e.FallbackProbability(t) // Mean has validated it
			if fallback <= 1e-3 && (rareMean == 0 || mean < rareMean) {
				rare, rareMean = e, mean
			}
		}
	}
	if rareMean != 0 && float64(rareMean) <= (1+Negligible)*float64(bestMean) {
		return rare, rareMean, nil
	}
	return best, bestMean, nil
}
