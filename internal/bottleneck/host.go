// SPDX-License-Identifier: Apache-2.0

package bottleneck

import (
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/units"
)

// Stalls are how a host shares its processors: now and then, at random, it doesn't run the flow for a
// while. What is due then is done late, all at once.
type Stalls struct {
	Every units.Duration // mean time from the end of one to the next; 0: there are none
	Last  units.Duration // mean length
}

// BusyHost makes feedback as irregular as it was between userroce's ends on two cores beside eight
// other programs, for a flow that made no queue: a piece came 0.2 ms after the one before it at the
// median, 4 ms in one case of a hundred and 18 ms in one of a thousand.
var BusyHost = Stalls{Every: 25 * units.Millisecond, Last: 5 * units.Millisecond}

// A host is one end's processor at work.
type host struct {
	Stalls
	draw        *rand.Rand
	from, until units.Instant // of the latest stall, or the next
}

func newHost(s Stalls, seed, id uint64) host {
	h := host{Stalls: s, draw: rand.New(rand.NewPCG(seed, id))}
	h.from, h.until = units.Never, units.Never
	if s.Every > 0 {
		h.stallAfter(0)
	}
	return h
}

// stallAfter draws the next stall.
func (h *host) stallAfter(t units.Instant) {
	h.from = t.Add(units.Duration(h.draw.ExpFloat64() * float64(h.Every)))
	h.until = h.from.Add(units.Duration(h.draw.ExpFloat64() * float64(h.Last)))
}

// runsAt is when what is due at t is done. The instants it is asked about never decrease.
func (h *host) runsAt(t units.Instant) units.Instant {
	for t >= h.until {
		h.stallAfter(h.until)
	}
	if t >= h.from {
		return h.until
	}
	return t
}
