// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/units"
)

// A trial finds out which of a few settings moves a stream at the least cost, where that depends on the processors, on which caches they
// share, and on the stream. Nobody says what they are, and the scheduler, or that of the host of a virtual machine, changes
// them. So now and then a stretch of a stream is moved with another setting, and the one that is cheaper is kept.
type trial struct {
	settings uint8 // how many there are
	// kept is what was best so far. used is another one for the stretch of an attempt, and tried the one that the last attempt was of.
	kept, used, tried uint8
	// bytes are those of this stretch so far, and stretches how many there have been since the last attempt.
	bytes     units.Bytes
	stretches int
	// wait is how many stretches there are between this attempt and the next.
	wait int
	// costs are the last ones of the stretch, samples how many there have been, and before is their median in the one before.
	costs   [trialSamples]units.Duration
	samples int
	before  units.Duration
}

const (
	// trialStretch is the length of a stretch. Its first half lets what the setting changes, such as which pages are used, come about.
	trialStretch = 32 * units.MiB
	trialSamples = 32
	// The first attempt is made soon, for a stream that is short, and each later one after four times the wait, up to 2 GiB.
	leastWait = 1
	longer    = 4
	mostWait  = 64
	// A setting is cheaper by a leastSaving-th at least.
	leastSaving = 32
)

// newTrial chooses among so many settings, from the first on.
func newTrial(settings uint8) trial { return trial{settings: settings, wait: leastWait} }

// note notes that so many bytes took so long.
func (t *trial) note(bytes units.Bytes, took units.Duration) {
	if t.bytes += bytes; 2*t.bytes > trialStretch {
		t.costs[t.samples%trialSamples] = took * units.Duration(units.MiB) / units.Duration(max(1, bytes))
		t.samples++
	}
	if t.bytes >= trialStretch {
		t.end(t.median())
		t.bytes, t.samples = 0, 0
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
		t.settle(cost < t.before-t.before/leastSaving)
	case t.stretches >= t.wait:
		t.used = t.other()
		t.tried = t.used
	}
	t.before = cost
}

// other is whose turn it is to be tried.
func (t *trial) other() uint8 {
	next := (t.tried + 1) % t.settings
	if next == t.kept {
		next = (next + 1) % t.settings
	}
	return next
}

// settle ends an attempt. Where the other setting was cheaper it is kept, and the next attempt comes soon.
func (t *trial) settle(cheaper bool) {
	t.stretches, t.wait = 0, min(longer*t.wait, mostWait)
	if cheaper {
		t.kept, t.wait = t.used, leastWait
	}
	t.used = t.kept
}
