// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Flow is one message from a host to another. Its number is its index in the list it is in.
type Flow struct {
	Src, Dst int // numbers of nodes
	Size     units.Bytes
	// Start is when the message is posted: from the run's beginning on, or where After isn't empty,
	// from when the last of those has been received.
	Start units.Instant
	// After are the flows, in the same list, that must have been received in full before.
	After []int32
	Class uint8 // of service; 0 is the default class for data
	// SrcPort and DstPort are the UDP ports that hashes see. 0 leaves them to the simulator.
	SrcPort, DstPort uint16
	// Conn is the number of the connection (queue pair) between Src and Dst that carries the message behind earlier ones, with the congestion
	// control that they have left; 0: a connection of its own.
	Conn uint16
	// Group is what the flow is reported under, such as its job; 0 where there are no groups.
	Group uint16
}

// Bounds of what a description may ask for.
const (
	MaxFlows = 1 << 24
	MaxSize  = units.TiB
	maxStart = units.Instant(units.Minute)
)

// Validate reports the first flow that can't be: between nodes that are no hosts, of no size, or that
// waits for itself, directly or by others. host reports whether a node is a host.
func Validate(flows []Flow, host func(int) bool) error {
	if len(flows) > MaxFlows {
		return operr.New("validate", "flows", "%d flows: at most %d fit", len(flows), MaxFlows)
	}
	for i, f := range flows {
		switch {
		case !host(f.Src) || !host(f.Dst):
			return operr.New("validate", "flows", "flow %d goes from node %d to node %d: both must be hosts of the topology", i, f.Src, f.Dst)
		case f.Src == f.Dst:
			return operr.New("validate", "flows", "flow %d goes from host %d to itself", i, f.Src)
		case f.Size <= 0 || f.Size > MaxSize:
			return operr.New("validate", "flows", "flow %d has %d bytes: must be within 1 and %v", i, f.Size, MaxSize)
		case f.Start < 0 || f.Start > maxStart:
			return operr.New("validate", "flows", "flow %d starts at %d ns: must be within 0 and %d, a minute", i, f.Start, maxStart)
		}
		for _, a := range f.After {
			if a < 0 || int(a) >= len(flows) {
				return operr.New("validate", "flows", "flow %d waits for flow %d: there are flows 0 to %d", i, a, len(flows)-1)
			}
		}
	}
	return checkOrder(flows)
}

// checkOrder starts what can start until nothing is left.
func checkOrder(flows []Flow) error {
	waits := make([]int32, len(flows))
	first := make([]int32, len(flows)+1) // where those that wait for flow i begin in all
	total := 0
	for i, f := range flows {
		waits[i] = int32(len(f.After))
		total += len(f.After)
		for _, a := range f.After {
			first[a+1]++
		}
	}
	for i := range flows {
		first[i+1] += first[i]
	}
	all, next := make([]int32, total), append([]int32(nil), first...)
	var ready []int32
	for i, f := range flows {
		if len(f.After) == 0 {
			ready = append(ready, int32(i))
		}
		for _, a := range f.After {
			all[next[a]] = int32(i)
			next[a]++
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		f := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, w := range all[first[f]:first[f+1]] {
			if waits[w]--; waits[w] == 0 {
				ready = append(ready, w)
			}
		}
	}
	if done == len(flows) {
		return nil
	}
	for i, w := range waits {
		if w > 0 {
			return operr.New("validate", "flows", "flow %d can never start: what it waits for waits for it, or for others in a circle", i)
		}
	}
	return nil
}
