// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// A trial finds out how many trains a device should hold. Where two processors share a cache it is as many as fill a processor's own
// cache, because what is in the shared one displaces other data. Where they share none many more are better: pages have to leave the
// cache of the other processor's side. And there are processors that fetch those lines for less than it costs to hold a train. Nobody says
// which processors those are, and the scheduler, or that of the host of a virtual machine, changes them. So now and then a stretch of a
// stream is sent with another of the three numbers, and the one that is cheaper is kept.
type trial struct {
	// kept is what was best so far. used is another one for the stretch of an attempt, and tried the one that the last attempt was of.
	kept, used, tried holding
	// trains are those of this stretch so far, and stretches how many there have been since the last attempt.
	trains, stretches int
	// wait is how many stretches there are between this attempt and the next.
	wait int
	// costs are of the last calls of the stretch, samples how many there have been, and before is their median in the one before.
	costs   [trialSamples]units.Duration
	samples int
	before  units.Duration
}

// A holding is how many trains are held.
type holding uint8

const (
	holdNone holding = iota
	holdFew
	holdMany
	holdings
)

const (
	// fewHeld are 1.2 MB: from 12 to 28 trains the rate is the same, and from 48 on it is less, where processors share a cache. manyHeld are
	// 12 MB.
	fewHeld  = 20
	manyHeld = 192

	// trialStretch is the length of a stretch, in trains. Its first half lets the pages go round.
	trialStretch = 512
	trialSamples = 32
	// The first attempt is made soon, for a stream that is short, and each later one after four times the wait, up to 2 GB.
	leastWait = 1
	longer    = 4
	mostWait  = 64
)

// most is how many trains to hold now.
func (t *trial) most() int { return [holdings]int{holdFew: fewHeld, holdMany: manyHeld}[t.used] }

// sent notes that so many trains, with so many bytes, took so long to send, with the release of others.
func (t *trial) sent(trains int, bytes units.Bytes, took units.Duration) {
	if t.trains += trains; 2*t.trains > trialStretch {
		t.costs[t.samples%trialSamples] = took * units.Duration(units.MiB) / units.Duration(max(1, bytes))
		t.samples++
	}
	if t.trains >= trialStretch {
		t.end(t.median())
		t.trains, t.samples = 0, 0
	}
}

// median is that of the costs, which a call that was interrupted doesn't move.
func (t *trial) median() units.Duration {
	c := t.costs[:min(t.samples, trialSamples)]
	slices.Sort(c)
	return c[len(c)/2]
}

// end ends a stretch with this cost of a MiB.
func (t *trial) end(cost units.Duration) {
	t.stretches++
	switch {
	case t.used != t.kept:
		t.settle(cost < t.before-t.before/16)
	case t.stretches >= max(t.wait, leastWait):
		t.used = t.other()
		t.tried = t.used
	}
	t.before = cost
}

// other is whose turn it is to be tried.
func (t *trial) other() holding {
	next := (t.tried + 1) % holdings
	if next == t.kept {
		next = (next + 1) % holdings
	}
	return next
}

// settle ends an attempt. Where the other number was cheaper it is kept, and the next attempt comes soon.
func (t *trial) settle(cheaper bool) {
	t.stretches, t.wait = 0, min(longer*max(t.wait, leastWait), mostWait)
	if cheaper {
		t.kept, t.wait = t.used, leastWait
	}
	t.used = t.kept
}
