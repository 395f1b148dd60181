// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Bursts are incasts at random times: at each host they arrive as a Poisson process, and in each Senders
// other hosts, drawn anew, send Size to it at one instant.
type Bursts struct {
	Senders int
	Size    units.Bytes
	// Load is the share of each host's link that they fill on average, above 0; 1 is all of it.
	Load     float64
	Rate     units.Rate                // of each host's link
	Rates    func(host int) units.Rate // of one host's link, where they differ; nil: all have Rate
	Duration units.Duration            // in which bursts arrive
}

// Flows returns the messages in the order of their start.
func (b Bursts) Flows(hosts []int, seed uint64) ([]Flow, error) {
	switch {
	case b.Senders < 1 || b.Senders >= len(hosts):
		return nil, operr.New("make", "bursts", "%d senders: must be within 1 and %d, one less than there are hosts", b.Senders, len(hosts)-1)
	case b.Size <= 0 || b.Size > MaxSize:
		return nil, operr.New("make", "bursts", "%d bytes a sender: must be within 1 and %v", int64(b.Size), MaxSize)
	}
	l := links{hosts, b.Rate, b.Rates}
	gaps, arrivals, err := l.gaps(float64(b.Size)*float64(b.Senders), b.Load, b.Duration)
	if err != nil {
		return nil, err
	}
	if arrivals*float64(b.Senders) > MaxFlows/2 {
		return nil, operr.New("make", "bursts", "this makes more than %d flows: choose less load, time or hosts, or larger messages", MaxFlows/2)
	}
	var flows []Flow
	others := make([]int, len(hosts)-1)
	for i, to := range hosts {
		draw := newSource(seed, forBursts, i)
		for at := draw.exponential(gaps[i]); at < float64(b.Duration); at += draw.exponential(gaps[i]) {
			copy(others, hosts[:i])
			copy(others[i:], hosts[i+1:])
			for s := range b.Senders { // the first of a shuffle
				j := s + draw.IntN(len(others)-s)
				others[s], others[j] = others[j], others[s]
				flows = append(flows, Flow{Src: others[s], Dst: to, Size: b.Size, Start: units.Instant(at)})
			}
		}
	}
	if len(flows) == 0 {
		return nil, operr.New("make", "bursts", "no burst arrives within %v: choose more load or time", b.Duration)
	}
	slices.SortStableFunc(flows, func(x, y Flow) int { return int(x.Start - y.Start) })
	return flows, nil
}

// links are those of some hosts.
type links struct {
	hosts []int
	rate  units.Rate                // of each
	rates func(host int) units.Rate // nil: rate
}

// gaps are the times in ns between arrivals of so many bytes at each host, which fill a share of its link, and how many arrivals that makes at all.
func (l *links) gaps(bytes, load float64, d units.Duration) (gaps []float64, arrivals float64, err error) {
	if !(load > 0 && load <= 10) {
		return nil, 0, operr.New("make", "arrivals", "a load of %g: must be above 0, as a share of the link, and at most 10", load)
	}
	gaps = make([]float64, len(l.hosts))
	for i, h := range l.hosts {
		rate := l.rate
		if l.rates != nil {
			rate = l.rates(h)
		}
		if rate <= 0 || d <= 0 || d > units.Duration(maxStart) {
			return nil, 0, operr.New("make", "arrivals", "%v at %v: both must be above 0, and the time at most a minute", d, rate)
		}
		gaps[i] = bytes * 8e9 / (load * float64(rate))
		arrivals += float64(d) / gaps[i]
	}
	return gaps, arrivals, nil
}
