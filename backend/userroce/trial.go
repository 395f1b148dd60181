// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// A trial finds out how many trains a device should hold. Where two processors share a cache it is as many as fill a processor's own
// cache, because what is in the shared one displaces other data. Where they share none many more are better: pages have to leave the
// cache of the other processor's side. Nobody says which processors those are, and the scheduler, or that of the host of a virtual machine,
// changes them. So now and then a stretch of a stream is sent with the other of the two numbers, and the one that is cheaper is kept.
type trial struct {
	state trialState
	// trains are those of this stretch so far, and stretches how many there have been since the last attempt.
	trains, stretches int
	// wait is how many stretches there are between this attempt and the next.
	wait int
	// costs are of the last calls of the stretch, samples how many there have been, and before is their median in the one before.
	costs   [trialSamples]units.Duration
	samples int
	before  units.Duration
}

// A trialState is which of the two numbers is in use, and whether for a stretch only.
type trialState uint8

const (
	holdFew trialState = iota
	tryMany            // instead of few
	holdMany
	tryFew // instead of many
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
func (t *trial) most() int {
	if t.state == tryMany || t.state == holdMany {
		return manyHeld
	}
	return fewHeld
}

// sent notes that so many trains, with so many bytes, took the kernel so long.
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
	cheaper := cost < t.before-t.before/16
	switch t.state {
	case holdFew:
		t.attempt(tryMany)
	case holdMany:
		t.attempt(tryFew)
	case tryMany:
		t.settle(cheaper, holdMany, holdFew)
	case tryFew:
		t.settle(cheaper, holdFew, holdMany)
	}
	t.before = cost
}

// attempt begins one, if it is time.
func (t *trial) attempt(other trialState) {
	if t.wait = max(t.wait, leastWait); t.stretches >= t.wait {
		t.state = other
	}
}

// settle ends an attempt. Where the other number was cheaper it is kept, and what was before is soon tried again.
func (t *trial) settle(cheaper bool, tried, before trialState) {
	t.state, t.stretches, t.wait = before, 0, min(longer*t.wait, mostWait)
	if cheaper {
		t.state, t.wait = tried, leastWait
	}
}
