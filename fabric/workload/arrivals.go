// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Arrivals says how messages arrive at hosts: at each independently, to another that is drawn among
// all.
type Arrivals struct {
	Sizes *CDF
	// Load is the share of each host's link that payload fills on average, above 0; 1 is all of it.
	Load     float64
	Rate     units.Rate                // of each host's link
	Rates    func(host int) units.Rate // of one host's link, where they differ; nil: all have Rate
	Duration units.Duration            // in which messages arrive
	// Sigma makes the gaps lognormal with this standard deviation of their logarithm, as bursts are;
	// 0 leaves them exponential, which is a Poisson process.
	Sigma float64
}

// Flows returns the messages in the order of their start.
func (a Arrivals) Flows(hosts []int, seed uint64) ([]Flow, error) {
	switch {
	case len(hosts) < 2:
		return nil, operr.New("make", "arrivals", "%d hosts: at least two are needed", len(hosts))
	case !(a.Sigma >= 0 && a.Sigma <= 5):
		return nil, operr.New("make", "arrivals", "gaps with a sigma of %g: must be within 0 and 5", a.Sigma)
	}
	l := links{hosts, a.Rate, a.Rates}
	gaps, arrivals, err := l.gaps(a.Sizes.Mean(), a.Load, a.Duration)
	if err != nil {
		return nil, err
	}
	if arrivals > MaxFlows/2 {
		return nil, operr.New("make", "arrivals", "this makes more than %d flows: choose less load, time or hosts", MaxFlows/2)
	}
	var flows []Flow
	for i, h := range hosts {
		draw := newSource(seed, forArrivals, i)
		at := 0.0
		for {
			if a.Sigma == 0 {
				at += draw.exponential(gaps[i])
			} else {
				at += draw.lognormal(gaps[i], a.Sigma)
			}
			if at >= float64(a.Duration) {
				break
			}
			to := draw.IntN(len(hosts) - 1)
			if to >= i {
				to++
			}
			flows = append(flows, Flow{Src: h, Dst: hosts[to], Size: a.Sizes.Size(draw.Float64()), Start: units.Instant(at)})
		}
	}
	if len(flows) == 0 {
		return nil, operr.New("make", "arrivals", "no message arrives within %v: choose more load or time", a.Duration)
	}
	slices.SortStableFunc(flows, func(x, y Flow) int { return int(x.Start - y.Start) })
	return flows, nil
}
