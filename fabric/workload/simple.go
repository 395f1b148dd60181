// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Incast lets n hosts, drawn from the seed, send size to one: to the host with index to in hosts.
// Each starts at a time drawn from 0 to jitter.
func Incast(hosts []int, n, to int, size units.Bytes, jitter units.Duration, seed uint64) ([]Flow, error) {
	if to < 0 || to >= len(hosts) {
		return nil, operr.New("make", "incast", "to host %d: hosts are 0 to %d", to, len(hosts)-1)
	}
	if n < 1 || n >= len(hosts) {
		return nil, operr.New("make", "incast", "of %d: must be within 1 and %d, one less than there are hosts", n, len(hosts)-1)
	}
	draw := newSource(seed, forJitter, 0)
	flows := make([]Flow, 0, n)
	for _, h := range newSource(seed, forPlaces, 0).Perm(len(hosts)) {
		if h != to && len(flows) < n {
			flows = append(flows, Flow{Src: hosts[h], Dst: hosts[to], Size: size, Start: draw.below(jitter)})
		}
	}
	return flows, nil
}

// Permutation lets each host send size to another, so that each receives from one: a cycle through all
// hosts, drawn from the seed. Each pair has so many flows (queue pairs) that share the size.
func Permutation(hosts []int, size units.Bytes, perPair int, seed uint64) ([]Flow, error) {
	switch {
	case len(hosts) < 2:
		return nil, operr.New("make", "permutation", "of %d hosts: at least two are needed", len(hosts))
	case perPair < 1 || perPair > MaxFlows/len(hosts):
		return nil, operr.New("make", "permutation", "with %d flows a pair: must be within 1 and %d", perPair, MaxFlows/len(hosts))
	case size < units.Bytes(perPair):
		return nil, operr.New("make", "permutation", "of %v over %d flows: each needs at least a byte", size, perPair)
	}
	order := newSource(seed, forPlaces, 0).Perm(len(hosts))
	to := make([]int, len(hosts))
	for i, h := range order {
		to[h] = order[(i+1)%len(order)]
	}
	flows := make([]Flow, 0, len(hosts)*perPair)
	for i, h := range hosts {
		for q := range perPair {
			flows = append(flows, Flow{Src: h, Dst: hosts[to[i]], Size: part(size, perPair, q)})
		}
	}
	return flows, nil
}

// Halves lets each host of the first half send size to one of the second: the i-th to the i-th.
func Halves(hosts []int, size units.Bytes) ([]Flow, error) {
	n := len(hosts) / 2
	if n < 1 || size < 1 {
		return nil, operr.New("make", "halves", "%v over %d hosts: at least two hosts and a byte are needed", size, len(hosts))
	}
	flows := make([]Flow, n)
	for i := range flows {
		flows[i] = Flow{Src: hosts[i], Dst: hosts[n+i], Size: size}
	}
	return flows, nil
}

// part is share i of n nearly equal ones of size.
func part(size units.Bytes, n, i int) units.Bytes {
	return size*units.Bytes(i+1)/units.Bytes(n) - size*units.Bytes(i)/units.Bytes(n)
}
