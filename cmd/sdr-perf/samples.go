// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// summarise sorts times, of which there is at least one.
func summarise(times []units.Duration) result.Completion {
	slices.Sort(times)
	var sum units.Duration
	for _, t := range times {
		sum += t
	}
	return result.Completion{
		Avg: sum / units.Duration(len(times)),
		P50: quantile(times, 500), P99: quantile(times, 990), P999: quantile(times, 999),
		Min: times[0], Max: times[len(times)-1],
	}
}

// quantile is the smallest of the sorted times that milli thousandths of them don't exceed.
func quantile(sorted []units.Duration, milli int) units.Duration {
	rank := (len(sorted)*milli + 999) / 1000
	return sorted[max(rank, 1)-1]
}
