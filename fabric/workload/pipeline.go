// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Pipelines are trainings with pipeline parallelism: the hosts are shared out to pipelines of Stages
// hosts, as far from each other in the list of hosts as that allows, so that with two data centres of
// equal size two stages are in one each. At a steady pace micro-batches enter each pipeline; each
// stage sends Size to the next when it has received it from the one before, and the gradients go back the
// same way.
type Pipelines struct {
	Stages int
	Size   units.Bytes // of the activations of a micro-batch between two stages, and of their gradients
	// Load is the share of the first stage's link that its activations fill, above 0.
	Load     float64
	Rate     units.Rate                // of each host's link
	Rates    func(host int) units.Rate // of one host's link, where they differ; nil: all have Rate
	Duration units.Duration            // in which micro-batches enter
}

// Flows returns the messages. Pipelines start within a gap between micro-batches, drawn from the seed.
func (p Pipelines) Flows(hosts []int, seed uint64) ([]Flow, error) {
	switch {
	case p.Stages < 2 || p.Stages > len(hosts):
		return nil, operr.New("make", "pipelines", "%d stages: must be within 2 and %d, the hosts", p.Stages, len(hosts))
	case p.Size <= 0 || p.Size > MaxSize:
		return nil, operr.New("make", "pipelines", "%d bytes a micro-batch: must be within 1 and %v", int64(p.Size), MaxSize)
	}
	pipelines := len(hosts) / p.Stages
	l := links{hosts[:pipelines], p.Rate, p.Rates} // of the first stages
	gaps, arrivals, err := l.gaps(float64(p.Size), p.Load, p.Duration)
	if err != nil {
		return nil, err
	}
	if arrivals*float64(2*p.Stages) > MaxFlows/2 {
		return nil, operr.New("make", "pipelines", "this makes more than %d flows: choose less load, time or hosts, or larger messages", MaxFlows/2)
	}
	var flows []Flow
	for i := range pipelines {
		stage := make([]int, p.Stages)
		for s := range stage {
			stage[s] = hosts[i+s*pipelines]
		}
		way := slices.Clone(stage)
		for _, h := range slices.Backward(stage[:p.Stages-1]) {
			way = append(way, h)
		}
		for at := newSource(seed, forPipelines, i).Float64() * gaps[i]; at < float64(p.Duration); at += gaps[i] {
			for h := 1; h < len(way); h++ {
				f := Flow{Src: way[h-1], Dst: way[h], Size: p.Size}
				if h == 1 {
					f.Start = units.Instant(at)
				} else {
					f.After = []int32{int32(len(flows) - 1)}
				}
				flows = append(flows, f)
			}
		}
	}
	if len(flows) == 0 {
		return nil, operr.New("make", "pipelines", "no micro-batch enters within %v: choose more load or time", p.Duration)
	}
	return flows, nil
}
