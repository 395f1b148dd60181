// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxPolls is how often a core may ask to be called at one instant before that
// counts as a livelock.
const maxPolls = 10000

// maxIdlePolls is how often in a row a core may ask to be called only to find that
// there is nothing to do.
const maxIdlePolls = 100_000

// A transfer is one transfer with its two halves, in the place of Conn.
type transfer struct {
	info                   scheme.Transfer
	back                   bool
	sender                 scheme.Sender
	receiver               scheme.Receiver
	senderEnv, receiverEnv scheme.Env
	out                    scheme.Output
	begun, finished        units.Instant
	done, received         bool
	// released: both halves may serve other transfers; sent and got is what they had counted.
	released  bool
	sent, got scheme.Stats

	// The sender's fields: which units were sent, and what was in this poll.
	wasSent bitmap
	sentNow []scheme.Sent
	codes   coder

	senderNext, receiverNext units.Instant
	// hungry says that the budget was used up, so that the sender is polled again when there
	// is more. touched says that something has happened to the sender.
	hungry, touched, receiverTouched bool
	polls                            int
	senderIdle, receiverIdle         int
	polledAt                         units.Instant

	// offered is a frame that must arrive and that waits for room, or for START to be acknowledged, which it is
	// from startAcked on.
	offered    []byte
	startAcked units.Instant

	// The receiver's fields.
	present, parity bitmap
	marks           []scheme.Mark
	spread          int
	first           units.Instant
	grantedTo       int
	parityFreed     int
}

func newTransfer(w *world, i int) (*transfer, error) {
	c := &w.c
	t := &transfer{
		info: scheme.Transfer{ID: uint64(i), Length: c.length(), UnitBytes: c.UnitBytes, Units: c.Units},
		back: c.Bidirectional && i%2 == 1, begun: w.now, first: units.Never, senderNext: w.now, receiverNext: units.Never, startAcked: units.Never,
		wasSent: newBitmap(c.Units), present: newBitmap(c.Units),
		marks: make([]scheme.Mark, c.Channels), spread: c.Spread,
	}
	t.out.Sends = make([]scheme.Send, 0, 64)
	t.out.Frame = make([]byte, 0, c.MaxFrame)
	t.out.Jobs = make([]scheme.Job, 0, 8)
	t.senderEnv = scheme.Env{
		Channels: c.Channels, RTT: w.rtt, MinRTT: w.minRTT, Rate: c.Rate,
		AckInterval: c.AckInterval, MaxFrame: c.MaxFrame, DataLimit: c.Units, ParityLimit: c.ParityPool,
	}
	t.receiverEnv = t.senderEnv
	if c.Slots > 0 {
		t.senderEnv.DataLimit = min(c.Slots, c.Units)
	} else if len(c.Buffers) > 0 {
		t.senderEnv.DataLimit = 0
	}
	t.grantedTo = t.senderEnv.DataLimit
	var err error
	t.sender, err = w.schemes[index(t.back)].NewSender(t.info, &t.senderEnv)
	return t, err
}

// begin is the arrival of START.
func (t *transfer) begin(w *world) (err error) {
	info := t.info
	info.Params = append([]byte(nil), t.sender.Params()...)
	t.receiver, err = w.schemes[1-index(t.back)].NewReceiver(info, &t.receiverEnv)
	t.receiverTouched = true
	if t.startAcked = w.now.Add(w.net.delay(w.now)); t.offered != nil {
		w.events.push(t.startAcked, event{kind: startAcked, transfer: int(t.info.ID)})
	}
	return err
}

// wake is when one of the halves must be polled.
func (t *transfer) wake(w *world) units.Instant {
	if t.done {
		return units.Never
	}
	at := t.senderNext
	if t.hungry {
		at = min(at, w.hasBudgetAt(t.back))
	}
	if t.receiver != nil && !t.received {
		at = min(at, t.receiverNext)
	}
	return max(at, w.now)
}

func (t *transfer) senderDue(w *world) bool {
	return !t.done && (t.touched || w.now >= t.senderNext || t.hungry && w.now >= w.hasBudgetAt(t.back))
}

func (t *transfer) receiverDue(w *world) bool {
	return !t.done && !t.received && t.receiver != nil && (t.receiverTouched || w.now >= t.receiverNext)
}

// arrive places a unit.
func (t *transfer) arrive(w *world, e *event) {
	if t.received || t.done {
		return
	}
	t.first = min(t.first, w.clock())
	switch {
	case e.unit.IsData():
		t.present.set(e.unit.Index())
	case e.unit.IsParity():
		t.parity.grow(e.unit.Index() + 1)
		t.parity.set(e.unit.Index())
	}
	m := &t.marks[e.channel]
	*m = scheme.Mark{Unit: e.unit, Count: m.Count + 1, Valid: true}
	t.receiverTouched = true
}

// complete is the arrival of COMPLETED.
func (t *transfer) complete(w *world) {
	if c, ok := t.sender.(scheme.CompletionObserver); ok && !t.done {
		c.OnCompleted(w.clock())
	}
	t.finish(w)
}

// finish ends the transfer, whether it is complete or has failed. No half is called any more.
func (t *transfer) finish(w *world) {
	if t.done {
		return
	}
	t.done, t.finished = true, w.now
	w.finished++
	t.release()
	if w.started < w.c.Transfers {
		w.start()
	}
}

// release recycles the halves of a transfer that has ended, once none of its jobs runs.
func (t *transfer) release() {
	if !t.done || len(t.codes.encodes)+len(t.codes.decodes) > 0 {
		return
	}
	t.sent, t.got = t.stats()
	t.released = true
	for _, half := range [...]any{t.sender, t.receiver} {
		if r, ok := half.(scheme.Recycler); ok {
			r.Recycle()
		}
	}
}

// stats are the counters of both halves.
func (t *transfer) stats() (sent, got scheme.Stats) {
	if t.released {
		return t.sent, t.got
	}
	if t.receiver != nil {
		got = t.receiver.Stats()
	}
	return t.sender.Stats(), got
}

func (t *transfer) have() int { return t.present.count() }

// Has implements scheme.View.
func (t *transfer) Has(u scheme.Unit) bool {
	if u.IsParity() {
		return t.parity.has(u.Index())
	}
	return t.present.has(u.Index())
}

// NextMissing implements scheme.View.
func (t *transfer) NextMissing(from int) int { return t.present.next(from, t.info.Units, false) }

// NextPresent implements scheme.View.
func (t *transfer) NextPresent(from, to int) int { return t.present.next(from, to, true) }

// Mark implements scheme.View.
func (t *transfer) Mark(channel int) scheme.Mark { return t.marks[channel] }

// Home implements scheme.View.
func (t *transfer) Home(u scheme.Unit) int { return u.Index() / t.spread % t.receiverEnv.Channels }

// First implements scheme.View.
func (t *transfer) First() units.Instant { return t.first }

// A bitmap holds a bit for each unit.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b *bitmap) grow(n int) {
	for len(*b)*64 < n {
		*b = append(*b, 0)
	}
}

func (b bitmap) set(i int) { b[i>>6] |= 1 << (i & 63) }

func (b bitmap) has(i int) bool { return i>>6 < len(b) && b[i>>6]>>(i&63)&1 != 0 }

// next returns the first i in [from, to) whose bit is as wanted, or to.
func (b bitmap) next(from, to int, want bool) int {
	for i := from; i < to; i = i&^63 + 64 {
		word := b[i>>6]
		if !want {
			word = ^word
		}
		if word = word >> (i & 63) << (i & 63); word != 0 {
			return min(to, i&^63+bits.TrailingZeros64(word))
		}
	}
	return max(to, 0)
}

func (b bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
