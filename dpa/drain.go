// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"math"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Drain finds out that every completion which waited in the queues of an engine's threads has been handled. An
// immediate names a slot and a queue pair a generation, so a completion that waits while its slot goes
// through all generations would be taken for one of the newer message: the fence says that nothing more
// can land, not that what has landed was looked at.
//
// One round after the other, a Drain records where each thread is, and waits until each has found its
// queue empty in a batch that it began afterwards. Completions of messages whose fence was down when
// the round began are then gone.
//
// It has no lock of its own: whoever posts the messages of a QP has one for their sequence anyway.
type Drain struct {
	engine Engine
	slots  uint64
	round  uint64 // messages from one use of a slot and generation to the next

	// No completion of a message below handled waits any more, nor one that
	// came before the instant since.
	handled uint64
	since   units.Instant

	// The present round.
	asking bool
	below  uint64
	begun  units.Instant
	epochs []uint64
}

// LongAgo is before every instant.
const LongAgo = units.Instant(math.MinInt64)

// NewDrain makes a Drain for the message sequence of a table with so many slots and generations, whose
// completions may reach any of the engine's threads.
func NewDrain(e Engine, slots, generations int) *Drain {
	return &Drain{engine: e, slots: uint64(slots), round: uint64(slots) * uint64(generations), since: LongAgo}
}

// May reports whether nothing that waits in a queue could be taken for message n, the next to be
// posted. The fence of the message before it in its slot is down, and those of all older ones. Nothing
// of the message before it in its slot and generation has come after the instant last.
//
// When asked is true a new round has begun: every host worker must be made to poll. They are asked long
// before a message depends on it, so that May seldom reports false.
func (d *Drain) May(now units.Instant, n uint64, last units.Instant) (ok, asked bool) {
	if n < d.slots {
		return true, false
	}
	d.look()
	ok = n < d.round || n-d.round < d.handled && last <= d.since
	fenced := n - d.slots + 1
	if !d.asking && (!ok || fenced >= d.handled+(d.slots+1)/2) {
		d.ask(now, fenced)
		asked = true
	}
	return ok, asked
}

// ask begins a round.
func (d *Drain) ask(now units.Instant, fenced uint64) {
	d.asking, d.below, d.begun = true, fenced, now
	d.epochs = d.engine.Epochs(d.epochs[:0])
	d.engine.Prompt()
}

// look finishes the round if every thread has answered.
func (d *Drain) look() {
	if !d.asking || !d.engine.Emptied(d.epochs) {
		return
	}
	d.asking, d.handled, d.since = false, d.below, d.begun
}
