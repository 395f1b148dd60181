// SPDX-License-Identifier: Apache-2.0

package bottleneck

import "github.com/sdr-rdma/go-sdr/units"

// Sum adds up what happened to flow i's packets from one instant to another, both rounded down to a
// Bin.
func (b *Bed) Sum(i int, from, to units.Instant) (r Record) {
	all := b.flows[i].records
	for j := int(from / units.Instant(Bin)); j < int(to/units.Instant(Bin)) && j < len(all); j++ {
		x := &all[j]
		r.Sent += x.Sent
		r.Delivered += x.Delivered
		r.Dropped += x.Dropped
		r.Lost += x.Lost
		r.Marked += x.Marked
		r.Trimmed += x.Trimmed
		r.Timeouts += x.Timeouts
	}
	return r
}

// Rate is the mean rate at which flow i's packets arrived, headers included.
func (b *Bed) Rate(i int, from, to units.Instant) units.Rate {
	return units.RateOf(b.Sum(i, from, to).Delivered, to.Sub(from))
}

// Queued is the mean length of the queue, and the longest.
func (b *Bed) Queued(from, to units.Instant) (mean, most units.Bytes) {
	sum := 0.0
	for j := int(from / units.Instant(Bin)); j < int(to/units.Instant(Bin)) && j < len(b.queues); j++ {
		sum += b.queues[j].byteTime
		most = max(most, b.queues[j].most)
	}
	return units.Bytes(sum / to.Sub(from).Seconds()), most
}

// WatchQueue makes Longest tell of the queue from now on.
func (b *Bed) WatchQueue() { b.longest = b.backlog }

// Longest is how long the queue was at most since WatchQueue, or the start: to the packet, while Queued goes by Bins.
func (b *Bed) Longest() units.Bytes { return b.longest }

// Jain is Jain's index of the fairness of rates: 1 where all are the same, 0 where nothing is sent.
func Jain[T units.Rate | float64](rates []T) float64 {
	sum, squares := 0.0, 0.0
	for _, r := range rates {
		x := float64(r)
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares / float64(len(rates))
}

// jain is that of the flows' rates over one window.
func (b *Bed) jain(from, to units.Instant) float64 {
	rates := make([]units.Rate, len(b.flows))
	for i := range rates {
		rates[i] = b.Rate(i, from, to)
	}
	return Jain(rates)
}

// WorstJain is the least Jain index over windows of one second.
func (b *Bed) WorstJain(from, to units.Instant) float64 {
	worst := 1.0
	for ; from.Add(units.Second) <= to; from = from.Add(units.Second) {
		worst = min(worst, b.jain(from, from.Add(units.Second)))
	}
	return worst
}
