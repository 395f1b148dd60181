// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"time"

	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/units"
)

// sum adds up what happened to a flow's packets from one instant to another, both rounded down to a
// link.Bin.
func (o *outcome) sum(flow int, from, to time.Duration) (r link.Record) {
	all := o.records[flow]
	for j := int(from / link.Bin); j < int(to/link.Bin) && j < len(all); j++ {
		r.Add(&all[j])
	}
	return r
}

// total is that of all flows.
func (o *outcome) total(from, to time.Duration) (r link.Record) {
	for i := range o.records {
		x := o.sum(i, from, to)
		r.Add(&x)
	}
	return r
}

// rate is what of a flow left the queue, headers included.
func (o *outcome) rate(flow int, from, to time.Duration) units.Rate {
	return units.RateOf(units.Bytes(o.sum(flow, from, to).Bytes), to-from)
}

// use is how much of a link all flows used.
func (o *outcome) use(rate units.Rate, from, to time.Duration) float64 {
	return float64(units.RateOf(units.Bytes(o.total(from, to).Bytes), to-from)) / float64(rate)
}

// jain is Jain's index of the flows' rates in one window: 1 where all have the same.
func (o *outcome) jain(from, to time.Duration) float64 {
	rates := make([]units.Rate, len(o.records))
	for i := range rates {
		rates[i] = o.rate(i, from, to)
	}
	return bottleneck.Jain(rates)
}

// worstJain is the least index of windows of one second.
func (o *outcome) worstJain(from, to time.Duration) float64 {
	worst := 1.0
	for ; from+time.Second <= to; from += time.Second {
		worst = min(worst, o.jain(from, from+time.Second))
	}
	return worst
}

// leastShare is a flow's least share of the link over windows of length.
func (o *outcome) leastShare(flow int, rate units.Rate, length, from, to time.Duration) float64 {
	least := 1.0
	for ; from+length <= to; from += length / 20 {
		least = min(least, float64(o.rate(flow, from, from+length))/float64(rate))
	}
	return least
}

// wait is how long a packet that was taken waited on average.
func wait(r link.Record) time.Duration {
	taken := r.Packets - r.Dropped - r.Lost
	if taken == 0 || taken > r.Packets {
		return 0
	}
	return r.Wait / time.Duration(taken)
}

// part is a share of some packets.
func part(some, all uint64) float64 { return float64(some) / float64(max(all, 1)) }

// reached is after what time from an instant on a window first used 0.9 of the link. never if none did.
func (o *outcome) reached(rate units.Rate, window, from, to time.Duration) time.Duration {
	for t := from; t+window <= to; t += link.Bin {
		if o.use(rate, t, t+window) >= inUse {
			return t - from
		}
	}
	return never
}

const (
	inUse = 0.9
	never = time.Duration(1<<63 - 1)
)
