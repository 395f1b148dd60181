// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxIntervals are kept of a point: when there are more, each two become one of twice the length.
	maxIntervals = 1200
	// maxFlows is of how many connections each has its own rate in the result.
	maxFlows = 16
	// readingPart is which part of an interval reading its counters may take: a rate is wrong by half of that at most.
	readingPart = 10
)

// A course is what the congestion controls of a point do while the transfers that count are under way, interval by
// interval. Its clock stands still between transfers.
type course struct {
	stats func() []reliability.Stats
	every units.Duration
	stop  chan struct{}
	done  sync.WaitGroup

	mu      sync.Mutex // of the clock
	running bool
	resumed time.Time
	before  units.Duration // what passed until then, without the pauses
	arrived units.Bytes    // at all connections, until counting began
	counts  bool           // it has begun

	// These belong to the goroutine that samples, and to end after it.
	merged int // how many intervals of every make one
	last   []reliability.Stats
	lastAt units.Duration
	spans  []span
}

// A span is an interval and what adds up when two of them become one.
type span struct {
	result.Interval
	took    units.Duration
	carried []units.Bytes
	queue   float64 // QueueNs times took
	found   float64 // FoundBps times took
}

// begin notes where the counters stand, sets the clock to zero, as it has run for what warmed up, and samples from then on; every 0: it
// doesn't.
func (c *course) begin(every units.Duration, stats func() []reliability.Stats) {
	first := stats()
	c.mu.Lock()
	c.before, c.arrived, c.counts = 0, arrived(first), true
	c.mu.Unlock()
	if every == 0 {
		return
	}
	c.every, c.stats, c.merged = every, stats, 1
	c.last, c.stop = first, make(chan struct{})
	c.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.sample(false)
			case <-c.stop:
				return
			}
		}
	})
}

// resume starts the clock, and pause stops it.
func (c *course) resume() {
	c.mu.Lock()
	c.running, c.resumed = true, time.Now()
	c.mu.Unlock()
}

func (c *course) pause() {
	c.mu.Lock()
	c.before += c.elapsed()
	c.running = false
	c.mu.Unlock()
}

// elapsed is for how long the clock has been running. c.mu is held.
func (c *course) elapsed() units.Duration {
	if !c.running {
		return 0
	}
	return time.Since(c.resumed)
}

// standing is what the clock shows, how much had arrived when counting began, and whether it has.
func (c *course) standing() (passed units.Duration, arrived units.Bytes, counts bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before + c.elapsed(), c.arrived, c.counts
}

func (c *course) now() units.Duration {
	passed, _, _ := c.standing()
	return passed
}

// arrived is how much has arrived at all connections.
func arrived(stats []reliability.Stats) (n units.Bytes) {
	for i := range stats {
		n += stats[i].Arrived
	}
	return n
}

// end takes the rest, that is what was counted since the last interval, and stops. It may be called again.
func (c *course) end() {
	if c.stop == nil {
		return // it never began
	}
	close(c.stop)
	c.done.Wait()
	c.stop = nil
	c.sample(true)
}

// sample ends an interval if it is long enough, or the last one. Where it is kept from a processor between clock and counters, as by real-time
// priority, neither fits the other: when reading them takes more than a part of the interval, that goes on until a later tick.
func (c *course) sample(last bool) {
	begun, stats := c.now(), c.stats()
	reading := c.now() - begun
	now := begun + reading/2
	took := now - c.lastAt
	switch {
	case took <= 0, !last && took < c.every*units.Duration(c.merged)*9/10:
		return // between transfers, or the last one ended a little late
	case !last && reading > took/readingPart: // at the last one the clock stands
		return
	}
	c.spans = append(c.spans, between(c.last, stats, now, took))
	c.last, c.lastAt = stats, now
	if len(c.spans) == maxIntervals {
		c.merge()
	}
}

// merge makes one interval of each two.
func (c *course) merge() {
	for i := range len(c.spans) / 2 {
		c.spans[i] = c.spans[2*i].plus(&c.spans[2*i+1])
	}
	c.spans = c.spans[:len(c.spans)/2]
	c.merged *= 2
}

// between is what happened from one reading of the counters of all connections to the next.
func between(from, to []reliability.Stats, end, took units.Duration) span {
	s := span{took: took, carried: make([]units.Bytes, len(to))}
	s.EndNs = end
	for i := range to {
		a, b := &from[i], &to[i]
		s.carried[i] = b.Arrived - a.Arrived
		s.FoundBps += foundRate(b)
		s.PaceBps += b.Rate
		s.QueueNs += b.Path.Queue / units.Duration(len(to))
		s.Sent += b.Units.Sent - a.Units.Sent
		s.Repeated += b.Units.Retransmitted - a.Units.Retransmitted
		s.Marks += b.QP.Congestions - a.QP.Congestions
		// What was taken for a loss and wasn't is taken back: those count when they are proved again.
		x, y := &a.Units.Losses, &b.Units.Losses
		for _, n := range []struct {
			sum      *uint64
			from, to uint64
		}{{&s.LostRandom, x.Random, y.Random}, {&s.LostQueue, x.Queue, y.Queue}, {&s.LostBlackout, x.Blackout, y.Blackout}} {
			*n.sum += max(n.from, n.to) - n.from
		}
	}
	s.State = to[0].Path.State
	s.queue, s.found = float64(s.QueueNs)*float64(took), float64(s.FoundBps)*float64(took)
	return s
}

// foundRate is what a connection's congestion control has found, or, of one without a model, the rate that it allows.
func foundRate(s *reliability.Stats) units.Rate {
	if s.Path.Rate == 0 && s.Path.State == "" {
		return s.Rate
	}
	return s.Path.Rate
}

// plus is this interval and the one after it.
func (s *span) plus(o *span) span {
	sum := *o
	sum.took += s.took
	sum.carried = make([]units.Bytes, len(o.carried))
	for i := range sum.carried {
		sum.carried[i] = s.carried[i] + o.carried[i]
	}
	sum.queue, sum.found = s.queue+o.queue, s.found+o.found
	for _, n := range []struct{ sum, more *uint64 }{
		{&sum.Sent, &s.Sent}, {&sum.Repeated, &s.Repeated}, {&sum.Marks, &s.Marks},
		{&sum.LostRandom, &s.LostRandom}, {&sum.LostQueue, &s.LostQueue}, {&sum.LostBlackout, &s.LostBlackout},
	} {
		*n.sum += *n.more
	}
	return sum
}

// finish sets what follows from the sums.
func (s *span) finish() {
	all := units.Bytes(0)
	rates := make([]units.Rate, len(s.carried))
	for i, n := range s.carried {
		all += n
		rates[i] = units.RateOf(n, s.took)
	}
	s.GoodputBps = units.RateOf(all, s.took)
	if len(rates) > 1 {
		jain := bottleneck.Jain(rates)
		s.Jain = &jain
	}
	if len(rates) > 1 && len(rates) <= maxFlows {
		s.FlowBps = rates
	}
}

// tell writes the course, and its means, into a result.
func (c *course) tell(r *result.Congestion) {
	if len(c.spans) == 0 {
		return
	}
	whole := c.spans[0]
	for i := range c.spans {
		s := &c.spans[i]
		if i > 0 {
			whole = whole.plus(s)
		}
		s.finish()
		r.Course = append(r.Course, s.Interval)
	}
	whole.finish()
	r.Jain = whole.Jain
	r.MeanRateBps = units.Rate(whole.found / float64(whole.took))
	r.MeanQueueNs = units.Duration(whole.queue / float64(whole.took))
}
