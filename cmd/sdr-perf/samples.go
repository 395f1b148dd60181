// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// completion summarises completion times.
type completion struct {
	Avg  units.Duration `json:"avg"`
	P50  units.Duration `json:"p50"`
	P99  units.Duration `json:"p99"`
	P999 units.Duration `json:"p999"`
	Min  units.Duration `json:"min"`
	Max  units.Duration `json:"max"`
}

// summarise sorts times, of which there is at least one.
func summarise(times []units.Duration) completion {
	slices.Sort(times)
	var sum units.Duration
	for _, t := range times {
		sum += t
	}
	return completion{
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
